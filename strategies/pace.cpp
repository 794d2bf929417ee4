#include "strategies/pace.h"

namespace troupe {

Pace::Counts LockstepPace::counts(const DistributedDataset& train) const {
  return {1, train.steps_per_epoch(), true};
}

std::optional<std::int64_t> LockstepPace::next_step(TrainState& state) { return state.step + 1; }

std::optional<std::int64_t> LockstepPace::examples_of(const DistributedBatch& batch) const {
  return batch.global_examples;
}

}  // namespace troupe
