// What step_cost trains, by Troupe and by hand: the models of the training benchmark, and the line
// of examples/linear_regression, a step of which is hardly more than its launches.
// Shapes: N examples, B of them in a batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/training_models.h"
#include "troupe.h"

namespace troupe::gpu {

/// The examples of a data set again and again, as one long epoch: turns of steps are not cut by the
/// ends of epochs.
class Repeated final : public Dataset {
 public:
  Repeated(std::shared_ptr<const Dataset> examples, std::int64_t size)
      : examples_(std::move(examples)), size_(size) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    return examples_->get(indices.remainder(examples_->size()));
  }
  void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const override {
    examples_->get_into(indices.remainder(examples_->size()), fields);
  }

 private:
  std::shared_ptr<const Dataset> examples_;
  std::int64_t size_;
};

/// One loss per example.  Shapes: y and target [B, 1] to [B].
inline torch::Tensor squared_errors(const torch::Tensor& y, const torch::Tensor& target) {
  return (y - target).pow(2).squeeze(1);
}

class LineHooks final : public Hooks {
 public:
  explicit LineHooks(const Options& options) : options_(options) {}

  [[nodiscard]] LossSet create_losses() const override {
    return {{"squared_error", squared_errors}};
  }
  [[nodiscard]] MetricSet create_metrics() const override {
    return MetricSet().add<Mean>("absolute_error");
  }
  [[nodiscard]] Trainable create_model() const override {
    torch::nn::Linear line(2, 1);
    return {line.ptr(),
            std::make_shared<torch::optim::SGD>(line->parameters(), options_.train.learning_rate)};
  }
  [[nodiscard]] Splits create_datasets() const override {
    auto generator = at::detail::createCPUGenerator(/*seed=*/7);
    const auto x = torch::randn({1000, 2}, generator);
    const auto y = x.matmul(torch::tensor({{3.0F}, {-2.0F}})) + 1.0;
    return {std::make_shared<TensorDataset>(std::vector<torch::Tensor>{x, y}), nullptr, nullptr};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<torch::nn::LinearImpl>().forward(x);  // [B, 1]
    replica.metric("absolute_error").update((y - target).abs());
    const auto loss = replica.global_mean(replica.loss("squared_error")(y, target));
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& /*replica*/,
                                           const Batch& /*batch*/) const override {
    throw ConfigError("step_cost validates nothing.", "leave it out.");
  }

 private:
  const Options options_;
};

struct Task {
  std::unique_ptr<Hooks> hooks;
  /// Forward and losses, for the loop by hand.  Shapes: the fields of a batch to [B].
  std::function<torch::Tensor(torch::nn::Module&, const std::vector<torch::Tensor>&)> losses;
};

/// `model`: linear, or one of the training benchmark's.
inline Task make_task(const std::string& model, const Options& options) {
  using Fields = std::vector<torch::Tensor>;
  if (model == "linear") {
    return {std::make_unique<LineHooks>(options), [](torch::nn::Module& net, const Fields& batch) {
              return squared_errors(net.as<torch::nn::Linear>()->forward(batch[0]), batch[1]);
            }};
  }
  return {std::make_unique<bench::ModelHooks>(model, options),
          [](torch::nn::Module& net, const Fields& batch) {
            return bench::losses_of(net.as<bench::Model>()->forward(batch[0]), batch[1]);
          }};
}

}  // namespace troupe::gpu
