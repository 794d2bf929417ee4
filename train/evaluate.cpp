#include "troupe/train/evaluate.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>

#include "troupe/core/clock.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/shard_plan.h"
#include "troupe/hooks/hook_error.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/sharing_failure.h"
#include "troupe/train/schedule/averaged_weights.h"

namespace troupe {

Report evaluate(Strategy& strategy, const Hooks& hooks, TrainState& state,
                const DistributedDataset& data, Phase phase,
                const std::function<void(const std::vector<StepResult>&)>& each) {
  const auto start = steady_clock().now();
  strategy.synchronize_buffers(state);
  const AveragesInUse averages(state);
  for (auto& replica : state.replicas) detail::ReplicaDriver(*replica).metrics(phase).reset();
  const Step step = [&](Replica& replica, const Batch& batch) {
    return phase == Phase::test ? hooks.test_step(replica, batch)
                                : hooks.validation_step(replica, batch);
  };
  detail::LossMeter meter;
  detail::sharing_failure(strategy, [&] {
    for (const DistributedBatch& batch : data.epoch(0)) {
      const std::int64_t examples = strategy.pace().examples_of(batch).value_or(0);
      const std::vector<StepResult> results = strategy.run(step, state, batch, phase);
      if (each) each(results);
      meter.add(results, examples);
    }
  });
  Report report = detail::reduce_report(strategy, state, meter, phase);
  report.seconds = Seconds(steady_clock().now() - start).count();
  return report;
}

std::optional<Report> test(Strategy& strategy, const Hooks& hooks, TrainState& state,
                           const DistributedSplits& data) {
  // What training came to, the others lack: their values are those of their last step.
  if (!data.test || !strategy.pace().coordinates()) return std::nullopt;
  return evaluate(strategy, hooks, state, *data.test, Phase::test);
}

std::vector<Predictions> predict(const Hooks& hooks, TrainState& state,
                                 std::shared_ptr<const Dataset> dataset, std::int64_t batch_size) {
  Replica& replica = *state.replicas.front();
  const auto examples = dataset->size();
  const DistributedDataset data(std::move(dataset),
                                ShardPlan({examples, batch_size, 1, 0, sequential()}), 0, 1);
  const AveragesInUse averages(state);
  std::vector<Predictions> all;
  for (const DistributedBatch& batch : data.epoch(0)) {
    all.push_back(detail::predict_batch(hooks, replica, batch.replicas.front(), state.step));
  }
  return all;
}

namespace detail {

Predictions predict_batch(const Hooks& hooks, Replica& replica, Batch batch, std::int64_t steps) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& field : batch.fields) field = field.to(replica.place().device);
  StepContext context{Phase::predict, batch.global_examples, batch.examples()};
  context.step = steps;
  ReplicaDriver(replica).begin_step(context);
  const ReplicaScope scope(replica);
  Predictions predictions;
  DistributedBatch whole;
  whole.replicas.push_back(batch);
  predictions = in_user_code([&] { return hooks.predict_step(replica, batch); },
                             [&] { return describe_call(Phase::predict, steps, whole, 0, 1); },
                             fix_for(batch));
  for (auto& [name, value] : predictions) value = in_float32(value);
  return predictions;
}

Report reduce_report(Strategy& strategy, TrainState& state, const LossMeter& meter, Phase phase) {
  Report report;
  report.phase = phase;
  report.examples = meter.examples();

  // One reduction for everything: losses, then the metrics' sums of all local replicas.
  const std::vector<LossSum> losses = meter.sums();
  for (const LossSum& loss : losses) report.losses.emplace_back(loss.name, loss.total);
  MetricSet metrics = detail::ReplicaDriver(*state.replicas.front()).metrics(phase);  // a copy
  std::vector<double> sums = metrics.sums();
  for (std::size_t i = 1; i < state.replicas.size(); ++i) {
    const auto more = detail::ReplicaDriver(*state.replicas[i]).metrics(phase).sums();
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += more[k];
  }
  sum_by_name(strategy, report.losses, sums);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    report.losses[i].second =
        LossSum{losses[i].name, report.losses[i].second, losses[i].weight}.mean();
    if (losses[i].weight != static_cast<double>(report.examples)) {
      report.weights.emplace_back(losses[i].name, losses[i].weight);
    }
  }
  metrics.set_sums(sums);
  report.metrics = metrics.compute();
  Recorder& recorder = state.replicas.front()->recorder();
  recorder.listen(strategy.is_chief(), text(to_string(phase), "/"));
  for (const auto& [name, picture] : metrics.pictures()) recorder.log_image(name, picture);
  return report;
}

}  // namespace detail
}  // namespace troupe
