// What a worker has of its own where workers do not keep step (Strategy::in_lockstep is false): its
// place in the data, which follows from the number of updates alone, and its examples.
#pragma once

#include <cstdint>

#include "strategies/strategy.h"

namespace troupe::detail {

/// Updates that one step of the training data makes: one, or one of each worker, asynchronously.
[[nodiscard]] std::int64_t updates_per_step(const Strategy& strategy);
/// Updates in which all workers together read every example once.
[[nodiscard]] std::int64_t updates_per_epoch(const Strategy& strategy,
                                             const DistributedDataset& data);

/// Where each worker reads on after so many updates, if all are equally fast: the same on every
/// worker, so shares of a batch belong together where training is synchronous. The end of an epoch
/// is its last place, not the next one's first.
[[nodiscard]] DataPosition place_at(std::int64_t updates, const Strategy& strategy,
                                    const DistributedDataset& data);

/// Examples that this worker's results of the batch stand for.
[[nodiscard]] std::int64_t examples_of(const Strategy& strategy, const DistributedBatch& batch);
/// Whether the batch has nothing for this worker, and no other waits for it.
[[nodiscard]] bool is_others(const Strategy& strategy, const DistributedBatch& batch);

}  // namespace troupe::detail
