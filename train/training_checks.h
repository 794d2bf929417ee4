// What can be wrong with a training before it begins.
#pragma once

#include "options/train_options.h"
#include "strategies/strategy.h"
#include "train/callbacks/callbacks.h"

namespace troupe::detail {

/// Throws: ConfigError where data, options, callbacks and the strategy's pace do not go together.
void check_training(Strategy& strategy, const DistributedSplits& data, const TrainOptions& options,
                    const Callbacks& callbacks);

}  // namespace troupe::detail
