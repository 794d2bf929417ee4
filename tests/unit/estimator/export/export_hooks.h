// ExportHooks: hooks that have what an export needs, a model and predict_step, each given by the
// test; and the files around it.
#pragma once

#include <torch/script.h>
#include <torch/torch.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "troupe/hooks/hooks.h"
#include "troupe/hooks/metrics.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/tensors/script_model.h"

namespace troupe::testing {

class ExportHooks final : public Hooks {
 public:
  using Make = std::function<Trainable()>;
  using Predict = std::function<Predictions(Replica&, const Batch&)>;

  ExportHooks(Make make, Predict predict) : make_(std::move(make)), predict_(std::move(predict)) {}

  [[nodiscard]] LossSet create_losses() const override { return {}; }
  [[nodiscard]] MetricSet create_metrics() const override { return MetricSet().add<Mean>("calls"); }
  [[nodiscard]] Trainable create_model() const override { return make_(); }
  [[nodiscard]] Splits create_datasets() const override { return {}; }
  [[nodiscard]] StepResult train_step(Replica&, const Batch&) const override { return {}; }
  [[nodiscard]] StepResult validation_step(Replica&, const Batch&) const override { return {}; }
  [[nodiscard]] Predictions predict_step(Replica& replica, const Batch& batch) const override {
    return predict_(replica, batch);
  }

 private:
  Make make_;
  Predict predict_;
};

class NoReduction final : public ParameterUpdate {
 public:
  void reduce(const std::vector<NamedTensor>&) override {}
};

/// What TorchScript writes of [B, 3] to [B, 2]; dropout in training.
[[nodiscard]] inline std::shared_ptr<ScriptModel> script_model() {
  torch::jit::Module script("Script");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_parameter("weight", torch::rand({2, 3}).requires_grad_(), /*is_buffer=*/false);
  script.register_buffer("shift", torch::rand({2}));
  script.define(
      "def forward(self, x):\n"
      "  y = torch.relu(torch.matmul(x, self.weight.t()) - self.shift)\n"
      "  return torch.dropout(y, 0.5, self.training)\n");
  return std::make_shared<ScriptModel>(script);
}

/// A replica of the hooks' models, from the same initial weights every time.
class OneReplica {
 public:
  explicit OneReplica(const Hooks& hooks, const ReplicaPlace& place = {}) {
    torch::manual_seed(7);
    replica_ = std::make_unique<Replica>(hooks.create_model(), hooks.create_losses(),
                                         hooks.create_metrics(), place, update_);
  }
  [[nodiscard]] Replica& operator*() { return *replica_; }
  [[nodiscard]] Replica* operator->() { return replica_.get(); }

 private:
  NoReduction update_;
  std::unique_ptr<Replica> replica_;
};

/// predict_step's answer as a program that serves the model would want it.
[[nodiscard]] inline Predictions predicted(const Hooks& hooks, Replica& replica,
                                           const std::vector<at::Tensor>& fields) {
  const torch::NoGradGuard no_grad;
  const std::int64_t count = fields.front().size(0);
  detail::ReplicaDriver(replica).begin_step({Phase::predict, count, count});
  return hooks.predict_step(replica, {fields, count, false});
}

[[nodiscard]] inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace troupe::testing
