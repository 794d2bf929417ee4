#include "troupe/estimator/evaluation_pass.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/data/shard_plan.h"
#include "troupe/hooks/losses.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/tensors/random_guard.h"
#include "troupe/strategies/replicas/local_replicas.h"
#include "troupe/train/evaluate.h"

namespace troupe::detail {
namespace {

/// What actions see of an evaluation: its batches are its steps.
class EvaluationRun final : public RunControl {
 public:
  explicit EvaluationRun(Replica& replica) : replica_(replica) {}
  [[nodiscard]] std::int64_t step() const override { return batches; }
  [[nodiscard]] bool is_chief() const override { return true; }
  [[nodiscard]] Replica& replica() override { return replica_; }
  void request_stop(const std::string&) override { stopped = true; }

  std::int64_t batches = 0;
  bool stopped = false;

 private:
  Replica& replica_;
};

/// Every batch weighs the same, as Estimator's users expect of "loss".
class BatchMeans {
 public:
  void add(LossValues losses) {
    ++batches_;
    if (sums_.empty()) sums_ = LossValues(losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      sums_.at(i).first = losses[i].first;
      sums_.at(i).second += losses[i].second;
    }
    last_ = std::move(losses);
  }
  [[nodiscard]] const LossValues& last() const { return last_; }
  [[nodiscard]] LossValues means() const {
    LossValues means = sums_;
    for (auto& [name, value] : means) value /= static_cast<double>(batches_);
    return means;
  }

 private:
  LossValues sums_, last_;
  std::int64_t batches_ = 0;
};

LossValues values_of(const StepResult& result) {
  LossValues values;
  for (const auto& [name, loss] : result.losses)
    values.emplace_back(name, loss.item<double>());  // the host waits for the device
  return values;
}

void log_progress(std::int64_t done, std::int64_t steps) {
  const std::int64_t every = steps < 20 ? 1 : steps / 10;
  if (done % every == 0 || done == steps) log_info("evaluation [", done, "/", steps, "]");
}

void add_value(Evaluation& evaluation, std::set<std::string>& names, const std::string& given,
               double value) {
  const std::string name = given.substr(given.find_first_not_of(kReplaces));
  const auto known = std::find_if(evaluation.metrics.begin(), evaluation.metrics.end(),
                                  [&](const auto& metric) { return metric.first == name; });
  if (name != given && known != evaluation.metrics.end()) {
    known->second = value;
    return;
  }
  if (name == "global_step" || !names.insert(name).second) {
    throw ConfigError("the evaluation's name \"" + name + "\" is reserved or there twice.",
                      "give every metric and loss a name of its own, other than loss, "
                      "average_loss and global_step.");
  }
  evaluation.metrics.emplace_back(name, value);
}

/// `average`: the first loss's mean over all examples.
Evaluation result_of(const BatchMeans& batches, double average,
                     const std::vector<MetricValue>& metrics) {
  Evaluation evaluation;
  std::set<std::string> names;
  const LossValues means = batches.means();
  add_value(evaluation, names, "loss", means.at(0).second);
  add_value(evaluation, names, "average_loss", average);
  for (std::size_t i = 0; i < means.size(); ++i) {
    const auto& [name, mean] = means[i];
    if (i > 0 || name != "loss") add_value(evaluation, names, name, mean);
  }
  for (const auto& [name, value] : evaluation.metrics) evaluation.better[name] = Better::lower;
  for (const MetricValue& metric : metrics) {
    add_value(evaluation, names, metric.name, metric.value);
    evaluation.better[metric.name.substr(metric.name.find_first_not_of(kReplaces))] = metric.better;
  }
  return evaluation;
}

/// What an evaluation changes in the replicas of a training, and puts back.
class AsBefore {
 public:
  explicit AsBefore(const TrainState& state) {
    for (const auto& replica : state.replicas) {
      draws_.push_back(std::make_unique<RandomGuard>(replica->place().device));
      for (const auto& [name, buffer] : replica->buffers())
        buffers_.emplace_back(buffer, buffer.detach().clone());
    }
  }
  ~AsBefore() {
    const torch::NoGradGuard no_grad;
    for (auto& [buffer, value] : buffers_) buffer.copy_(value);
  }
  AsBefore(const AsBefore&) = delete;
  AsBefore& operator=(const AsBefore&) = delete;

 private:
  std::vector<std::unique_ptr<RandomGuard>> draws_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // and their values
};

std::vector<std::string> names_of(const MetricSet& metrics) {
  std::vector<std::string> names;
  for (const MetricValue& metric : metrics.compute()) names.push_back(metric.name);
  return names;
}

}  // namespace

Evaluation run_evaluation(const Hooks& hooks, Replica& replica, const DistributedDataset& data,
                          const EvaluationPass& pass) {
  const RandomGuard guard(replica.place().device);
  const Step step = [&](Replica& on, const Batch& batch) {
    return pass.phase == Phase::test ? hooks.test_step(on, batch)
                                     : hooks.validation_step(on, batch);
  };
  MetricSet& metrics = detail::ReplicaDriver(replica).metrics(pass.phase);
  metrics.reset();
  EvaluationRun run(replica);
  BatchMeans batches;
  LossMeter meter;
  for (const auto& action : pass.actions) action->begin();
  for (const auto& action : pass.actions) action->ready(run);
  for (const DistributedBatch& batch : data.epoch(0)) {
    for (const auto& action : pass.actions) action->before_step(run);
    const StepResult result = run_on_replica(step, replica, batch, 0, pass.phase, pass.global_step);
    if (result.losses.empty()) {
      throw ConfigError("the evaluation step returned no loss.", "return the loss of the batch.");
    }
    ++run.batches;
    batches.add(values_of(result));
    meter.add({result}, batch.global_examples);
    const StepReport report{run.batches, 0, batch.global_examples, batches.last()};
    for (const auto& action : pass.actions) action->after_step(report, run);
    if (pass.steps)
      log_progress(run.batches,
                   std::min(*pass.steps, data.steps_per_epoch().value_or(*pass.steps)));
    if (run.stopped || run.batches == pass.steps) break;
  }
  for (const auto& action : pass.actions) action->end(run);
  Evaluation evaluation = result_of(batches, meter.sums().at(0).mean(), metrics.compute());
  evaluation.global_step = pass.global_step;
  return evaluation;
}

std::optional<Evaluation> evaluate_together(Strategy& strategy, const Hooks& hooks,
                                            TrainState& state, const DistributedSplits& data,
                                            std::int64_t batch_size,
                                            std::optional<std::int64_t> steps) {
  const auto& split = data.validation ? data.validation : data.test;
  const Phase phase = data.validation ? Phase::validation : Phase::test;
  const MetricSet& own = ReplicaDriver(*state.replicas.front()).metrics(phase);
  if (!split || split->plan().is_stream() || names_of(hooks.create_metrics()) != names_of(own))
    return std::nullopt;
  const AsBefore guard(state);
  const std::int64_t most = steps ? *steps * batch_size : split->examples();
  BatchMeans batches;
  const Report report = troupe::evaluate(
      strategy, hooks, state, split->first(most, batch_size, sequential()), phase,
      [&](const std::vector<StepResult>& results) { batches.add(strategy.reduce(results)); });
  Evaluation evaluation = result_of(batches, report.losses.front().second, report.metrics);
  evaluation.global_step = state.step;
  return evaluation;
}

DistributedDataset in_order(const std::shared_ptr<const Dataset>& dataset, std::int64_t batch_size,
                            const LoaderOptions& loader, const char* what) {
  if (!dataset || dataset->size() == 0) {
    throw ConfigError(std::string("there is no data to ") + what + ".",
                      "return a validation or test split from create_datasets, or give an input.");
  }
  const ShardPlan plan({dataset->size(), batch_size, 1, 0, sequential()});
  return DistributedDataset(dataset, plan, 0, 1, loader);
}

}  // namespace troupe::detail
