// What can be wrong with a training before it begins, and what its first step shows.
#pragma once

#include <vector>

#include "troupe/core/options/train_options.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe::detail {

/// Throws: ConfigError where data, options, callbacks and the strategy's pace do not go together.
void check_training(Strategy& strategy, const TrainState& state, const DistributedSplits& data,
                    const TrainOptions& options, const Callbacks& callbacks);

/// After a step. Throws: ConfigError if it returned no loss, or if it is the training's first one
/// and no optimiser was applied, although there are some: nothing would ever be trained. A resumed
/// run may start with a step that applies none.
void check_step(const TrainState& state, const std::vector<StepResult>& results, bool is_first);

}  // namespace troupe::detail
