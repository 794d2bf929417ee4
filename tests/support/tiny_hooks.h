// TinyHooks: the smallest task that has everything a real one has. y = w x + b on fixed examples,
// from fixed initial weights, so that a test can say what every number must be.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "troupe/hooks/hooks.h"
#include "troupe/hooks/metrics.h"

namespace troupe::testing {

/// An optimiser of a kind that nobody has registered.
struct Unknown final : torch::optim::SGD {
  using torch::optim::SGD::SGD;
};

class TinyHooks : public Hooks {
 public:
  explicit TinyHooks(std::int64_t examples = 10) : examples_(examples) {}

  [[nodiscard]] LossSet create_losses() const override {
    return {{"squared_error", [](const at::Tensor& y, const at::Tensor& target) {
               return (y - target).pow(2).squeeze(1);
             }}};
  }
  [[nodiscard]] MetricSet create_metrics() const override {
    return MetricSet().add<Mean>("absolute_error");
  }
  [[nodiscard]] Trainable create_model() const override {
    torch::nn::Linear line(1, 1);
    const torch::NoGradGuard no_grad;
    line->weight.fill_(0.5);
    line->bias.fill_(-0.25);
    return {line.ptr(), std::make_shared<torch::optim::SGD>(line->parameters(), 0.01)};
  }
  [[nodiscard]] Splits create_datasets() const override {
    const auto x = torch::arange(examples_, torch::kFloat32).unsqueeze(1) / 10.0;
    const auto all = std::make_shared<TensorDataset>(std::vector<at::Tensor>{x, 2.0 * x + 1.0});
    return {all, all, all};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    return forward(replica, batch);
  }
  [[nodiscard]] Predictions predict_step(Replica& replica, const Batch& batch) const override {
    return {{"y", output(replica, batch.fields[0])}};
  }

 protected:
  /// For a task with another model: what that makes of inputs.
  [[nodiscard]] virtual at::Tensor output(Replica& replica, const at::Tensor& x) const {
    return replica.model<torch::nn::LinearImpl>().forward(x);
  }
  [[nodiscard]] at::Tensor forward(Replica& replica, const Batch& batch) const {
    const auto [x, target] = batch.unpack<2>();
    const auto y = output(replica, x);
    replica.metric("absolute_error").update((y - target).abs());
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }

 private:
  std::int64_t examples_;
};

}  // namespace troupe::testing
