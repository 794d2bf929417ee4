#include "strategies/strategy.h"

#include <torch/types.h>

#include "core/error.h"
#include "core/text.h"
#include "strategies/named_sum.h"
#include "strategies/replicas/local_replicas.h"
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

}  // namespace

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
  const auto share = [&](const std::shared_ptr<const Dataset>& dataset, std::int64_t batch,
                         int workers, Shuffle shuffle) {
    std::optional<DistributedDataset> data;
    if (dataset == nullptr) return data;
    const int local = local_replicas();
    const ShardPlan shards({dataset->size(), batch, workers * local, plan.seed, shuffle});
    data.emplace(dataset, shards, workers == 1 ? 0 : rank() * local, local);
    return data;
  };
  // Where replicas make updates apart, a step of the plan is one batch for each worker, which takes
  // it in its own time. Who coordinates alone evaluates alone.
  const int batches = world_size() * local_replicas() / replicas_in_sync();
  const int voices = pace().voices();
  return {share(splits.train, plan.global_batch * batches, world_size(), Shuffle::yes),
          share(splits.validation, plan.global_batch, voices, Shuffle::no),
          share(splits.test, plan.global_batch, voices, Shuffle::no)};
}

void Strategy::synchronize_buffers(TrainState& state) {
  if (state.replicas.size() > 1) detail::make_buffers_equal(state, nullptr);
}

LossValues Strategy::reduce(Reduction reduction, const std::vector<StepResult>& results) {
  LossValues total = detail::sharing_failure(*this, [&] { return detail::add_by_name(results); });
  std::vector<double> nothing_more;
  detail::sum_by_name(*this, total, nothing_more);
  const int summed = pace().voices() * local_replicas();
  const double divisor = reduction == Reduction::mean ? summed : 1.0;
  for (auto& [name, value] : total) value /= divisor;
  return total;
}

}  // namespace troupe
