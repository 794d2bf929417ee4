#include "train/loop.h"

#include <utility>

#include "train/training_run.h"

namespace troupe {

History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Callbacks callbacks) {
  TrainingRun run(strategy, hooks, state, data, options, std::move(callbacks));
  for (auto& epoch : run.epochs()) {
    for (const auto& batch : epoch) run.train_step(batch);
    run.validate();
  }
  return run.finish();
}

}  // namespace troupe
