// Warm start: training that begins with another run's weights instead of fresh ones. A checkpoint
// in the run's own directory takes precedence; step, optimisers and position start at 0.
#pragma once

#include "troupe/core/options/train_options.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// Throws: ConfigError for a bad expression, or names without anything to start from.
void validate(const WarmStart& warm_start);

/// Copies the tensors that `warm_start` names into the models of a replica.
/// Throws: CheckpointError where `from` holds no model, or for a tensor that is missing there or
/// has another shape; ConfigError for an expression that matches no name.
void copy_from(const WarmStart& warm_start, const Replica& replica);

/// The same where a training begins: the chief reads, and all replicas of all workers have its
/// weights then; averages of weights begin at them. Without a warm start, and where the state has
/// taken a step, nothing changes. Collective: yes.
void copy_from(const WarmStart& warm_start, Strategy& strategy, TrainState& state);

}  // namespace troupe
