#include "strategies/strategy.h"

#include <torch/types.h>

#include "core/error.h"
#include "core/text.h"
#include "strategies/shared_failure.h"

namespace troupe {
namespace {

std::int64_t size_of(const std::shared_ptr<const Dataset>& dataset) {
  return dataset == nullptr ? -1 : dataset->size();
}

/// "60000 5000 10000"; -1 where there is no such split.
std::string sizes_of(const Splits& splits) {
  return text(size_of(splits.train), " ", size_of(splits.validation), " ", size_of(splits.test));
}

std::optional<DistributedDataset> share(const std::shared_ptr<const Dataset>& dataset,
                                        const Strategy& strategy, const BatchPlan& plan,
                                        Shuffle shuffle) {
  if (dataset == nullptr) return std::nullopt;
  const ShardPlan shards(
      {dataset->size(), plan.global_batch, strategy.replicas_in_sync(), plan.seed, shuffle});
  return DistributedDataset(dataset, shards, strategy.rank() * strategy.local_replicas(),
                            strategy.local_replicas());
}

}  // namespace

void Strategy::publish(TrainState& /*state*/, std::int64_t /*last_step*/) {}

std::optional<std::int64_t> Strategy::begin_step(TrainState& state) { return state.step + 1; }

void Strategy::collect(TrainState& /*state*/) {}

void Strategy::end_training(TrainState& /*state*/, const std::string& /*reason*/) {}

std::string Strategy::facts() const { return ""; }

std::vector<std::vector<std::byte>> Strategy::gather_to_chief(Span<const std::byte> mine) {
  return {{mine.begin(), mine.end()}};
}

DistributedSplits Strategy::distribute(const Splits& splits, const BatchPlan& plan) {
  const std::vector<std::string> sizes = gather(sizes_of(splits));
  for (std::size_t rank = 1; rank < sizes.size(); ++rank) {
    if (sizes[rank] == sizes[0]) continue;
    detail::fail_alike(
        *this,
        ConfigError(
            text("rank ", rank, " has ", sizes[rank],
                 " training, validation and test examples, the chief ", sizes[0], " (-1: none)."),
            "give every worker the same data: compare --data-dir on both machines."));
  }
  return {share(splits.train, *this, plan, Shuffle::yes),
          share(splits.validation, *this, plan, Shuffle::no),
          share(splits.test, *this, plan, Shuffle::no)};
}

LossValues Strategy::reduce(Reduction reduction, const std::vector<StepResult>& results) {
  LossValues total;
  std::vector<double> values;
  for (const StepResult& result : results) {
    for (std::size_t i = 0; i < result.losses.size(); ++i) {
      // The host waits for the device here.
      const double value = result.losses[i].second.item<double>();
      if (i == total.size()) {
        total.emplace_back(result.losses[i].first, 0.0);
        values.push_back(0.0);
      }
      values[i] += value;
    }
  }
  sum(values);
  const int summed = in_lockstep() ? replicas_in_sync() : local_replicas();
  const double divisor = reduction == Reduction::mean ? summed : 1.0;
  for (std::size_t i = 0; i < total.size(); ++i) total[i].second = values[i] / divisor;
  return total;
}

}  // namespace troupe
