#include "troupe/core/options/checkpoint_cadence.h"

namespace troupe {
namespace {

constexpr double kDefaultSeconds = 600;  // between checkpoints

}  // namespace

bool CheckpointCadence::is_due(std::int64_t after_steps, double after_seconds) const {
  return steps ? after_steps >= *steps : seconds && after_seconds >= *seconds;
}

CheckpointCadence checkpoint_cadence(const TrainOptions& options) {
  CheckpointCadence cadence;
  if (options.save_checkpoints_steps.value_or(0) > 0)
    cadence.steps = options.save_checkpoints_steps;
  if (options.save_checkpoints_secs.value_or(0) > 0)
    cadence.seconds = options.save_checkpoints_secs;
  if (!options.save_checkpoints_steps && !options.save_checkpoints_secs) {
    cadence.seconds = kDefaultSeconds;
  }
  return cadence;
}

}  // namespace troupe
