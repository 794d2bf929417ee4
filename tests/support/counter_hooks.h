// CounterHooks: a task whose training does nothing but count steps, so that a test of what happens
// around the steps need not care about learning. Loss 0, prediction [[10]], one metric,
// mean_of_features, over the one example whose only field is [1].
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/estimator/estimator.h"
#include "troupe/hooks/hooks.h"
#include "troupe/hooks/metrics.h"
#include "troupe/train/checkpoint/model_weights.h"

namespace troupe::testing {

class CounterHooks : public Hooks {
 public:
  /// The value of its parameters "weight" and "bias", which no step changes.
  explicit CounterHooks(double initial = 0) : initial_(initial) {}

  [[nodiscard]] LossSet create_losses() const override { return {}; }
  [[nodiscard]] MetricSet create_metrics() const override {
    return MetricSet().add<Mean>("mean_of_features");
  }
  [[nodiscard]] Trainable create_model() const override {
    torch::nn::Linear line(1, 1);
    const torch::NoGradGuard no_grad;
    line->weight.fill_(initial_);
    line->bias.fill_(initial_);
    return Trainable().add_model("model", line.ptr());
  }
  [[nodiscard]] Splits create_datasets() const override {
    const auto one = std::make_shared<TensorDataset>(std::vector<at::Tensor>{torch::ones({1, 1})});
    return {one, one, one};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    return replica.global_mean(torch::zeros({batch.fields[0].size(0)}));
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    replica.metric("mean_of_features").update(batch.fields[0]);
    return replica.global_mean(torch::zeros({batch.fields[0].size(0)}));
  }
  [[nodiscard]] Predictions predict_step(Replica&, const Batch& batch) const override {
    return {{"prediction", torch::full({batch.fields[0].size(0), 1}, 10.0)}};
  }

 private:
  double initial_;
};

/// Options for a run in `dir` that saves at the start and the end only, and logs nothing.
inline EstimatorOptions options_in(const std::filesystem::path& dir) {
  EstimatorOptions options;
  options.train.model_dir = dir.string();
  options.train.batch_size = 1;
  options.train.progress = false;
  options.train.log_every = 0;
  options.train.save_summary_steps = 0;
  return options;
}

/// The same, and saves every `save_every` steps.
inline EstimatorOptions options_in(const std::filesystem::path& dir, std::int64_t save_every) {
  EstimatorOptions options = options_in(dir);
  options.train.save_checkpoints_steps = save_every;
  return options;
}

inline TrainSpec for_steps(std::int64_t steps) {
  TrainSpec call;
  call.steps = steps;
  return call;
}

inline TrainSpec up_to(std::int64_t max_steps) {
  TrainSpec call;
  call.max_steps = max_steps;
  return call;
}

/// An input whose fields are `fields`, each [N, ...].
inline std::function<std::shared_ptr<const Dataset>()> input_of(std::vector<at::Tensor> fields) {
  return [fields = std::move(fields)] { return std::make_shared<TensorDataset>(fields); };
}

/// The step of the newest checkpoint; -1: there is none.
inline std::int64_t latest_step(const Estimator& estimator) {
  const auto latest = estimator.latest_checkpoint();
  return latest ? split_checkpoint_path(*latest).step : -1;
}

/// Counts the steps, or batches, that it is called for.
class StepRecorder final : public PeriodicAction {
 public:
  void begin() override { ++begun; }
  void after_step(const StepReport& report, RunControl&) override { steps.push_back(report.step); }
  void end(RunControl&) override { ++ended; }

  int begun = 0;
  int ended = 0;
  std::vector<std::int64_t> steps;
};

/// Remembers what it is told of a run's checkpoints; asks to stop in the `stop_at`th after_save.
class SaveRecorder final : public SavingListener {
 public:
  explicit SaveRecorder(int stop_at = 0) : stop_at_(stop_at) {}
  void begin() override { ++begun; }
  void before_save(std::int64_t step) override { before.push_back(step); }
  bool after_save(const SavedCheckpoint& saved) override {
    after.push_back(saved.step);
    complete = complete && std::filesystem::exists(saved.path);
    return static_cast<int>(after.size()) == stop_at_;
  }
  void end(const SavedCheckpoint& saved) override { ends.push_back(saved.step); }

  int begun = 0;
  bool complete = true;  // every checkpoint was there when it was told
  std::vector<std::int64_t> before, after, ends;

 private:
  int stop_at_;
};

using Steps = std::vector<std::int64_t>;

}  // namespace troupe::testing
