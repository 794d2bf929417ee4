#include "estimator/evaluation_pass.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "hooks/losses.h"
#include "hooks/replica_driver.h"
#include "strategies/replicas/local_replicas.h"
#include "train/random_guard.h"

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
  void add(const StepResult& result) {
    ++batches_;
    if (sums_.empty()) {
      for (const auto& [name, loss] : result.losses) sums_.emplace_back(name, 0.0);
    }
    last_.clear();
    for (std::size_t i = 0; i < result.losses.size(); ++i) {
      const auto value = result.losses[i].second.item<double>();  // the host waits for the device
      last_.emplace_back(result.losses[i].first, value);
      sums_.at(i).second += value;
    }
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

void log_progress(std::int64_t done, std::int64_t steps) {
  const std::int64_t every = steps < 20 ? 1 : steps / 10;
  if (done % every == 0 || done == steps) log_info("evaluation [", done, "/", steps, "]");
}

/// Returns false where there is none of that name.
bool replace_value(Evaluation& evaluation, const std::string& name, double value) {
  for (auto& [known, present] : evaluation.metrics) {
    if (known != name) continue;
    present = value;
    return true;
  }
  return false;
}

void add_value(Evaluation& evaluation, std::set<std::string>& names, const std::string& given,
               double value) {
  const std::string name = given.substr(given.find_first_not_of(kReplaces));
  if (name != given && replace_value(evaluation, name, value)) return;
  if (name == "global_step" || !names.insert(name).second) {
    throw ConfigError("the evaluation's name \"" + name + "\" is reserved or there twice.",
                      "give every metric and loss a name of its own, other than loss, "
                      "average_loss and global_step.");
  }
  evaluation.metrics.emplace_back(name, value);
}

Evaluation result_of(const BatchMeans& batches, const LossMeter& meter, MetricSet& metrics) {
  Evaluation evaluation;
  std::set<std::string> names;
  const LossValues means = batches.means();
  const LossSum first = meter.sums().at(0);
  add_value(evaluation, names, "loss", means.at(0).second);
  add_value(evaluation, names, "average_loss", first.mean());
  for (std::size_t i = 0; i < means.size(); ++i) {
    const auto& [name, mean] = means[i];
    if (i > 0 || name != "loss") add_value(evaluation, names, name, mean);
  }
  for (const MetricValue& metric : metrics.compute()) {
    add_value(evaluation, names, metric.name, metric.value);
  }
  return evaluation;
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
    const StepResult result =
        run_on_replica(step, replica, batch.replicas.front(), pass.phase, pass.global_step);
    if (result.losses.empty()) {
      throw ConfigError("the evaluation step returned no loss.", "return the loss of the batch.");
    }
    ++run.batches;
    batches.add(result);
    meter.add({result}, batch.global_examples);
    const StepReport report{run.batches, 0, batch.global_examples, batches.last()};
    for (const auto& action : pass.actions) action->after_step(report, run);
    if (pass.steps)
      log_progress(run.batches,
                   std::min(*pass.steps, data.steps_per_epoch().value_or(*pass.steps)));
    if (run.stopped || run.batches == pass.steps) break;
  }
  for (const auto& action : pass.actions) action->end(run);
  Evaluation evaluation = result_of(batches, meter, metrics);
  evaluation.global_step = pass.global_step;
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
