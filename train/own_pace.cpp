#include "train/own_pace.h"

namespace troupe::detail {

std::int64_t updates_per_step(const Strategy& strategy) {
  if (strategy.in_lockstep()) return 1;
  return strategy.world_size() * strategy.local_replicas() / strategy.replicas_in_sync();
}

std::int64_t updates_per_epoch(const Strategy& strategy, const DistributedDataset& data) {
  const std::int64_t steps = data.steps_per_epoch();
  const std::int64_t each = updates_per_step(strategy);
  if (each == 1 || steps == 0) return steps;
  std::int64_t in_last = 0;  // workers that the last step has examples for
  for (int worker = 0; worker < strategy.world_size(); ++worker) {
    const Share share = data.plan().share(steps - 1, worker * strategy.local_replicas());
    if (share.count > 0) ++in_last;
  }
  return (steps - 1) * each + in_last;
}

DataPosition place_at(std::int64_t updates, const Strategy& strategy,
                      const DistributedDataset& data) {
  const std::int64_t epoch = updates_per_epoch(strategy, data);
  if (updates > 0 && updates % epoch == 0) return {updates / epoch - 1, data.steps_per_epoch()};
  return {updates / epoch, updates % epoch / updates_per_step(strategy)};
}

std::int64_t examples_of(const Strategy& strategy, const DistributedBatch& batch) {
  if (strategy.in_lockstep()) return batch.global_examples;
  std::int64_t examples = 0;
  for (const Batch& own : batch.replicas) examples += own.examples();
  return examples;
}

bool is_others(const Strategy& strategy, const DistributedBatch& batch) {
  return updates_per_step(strategy) > 1 && examples_of(strategy, batch) == 0;
}

}  // namespace troupe::detail
