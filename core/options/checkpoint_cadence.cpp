#include "troupe/core/options/checkpoint_cadence.h"

namespace troupe {
namespace {

constexpr double kDefaultSeconds = 600;  // between checkpoints

}  // namespace

bool CheckpointCadence::is_due(std::int64_t step, std::int64_t saved, double after_seconds) const {
  // Where other workers take some of the steps, at the first one after.
  return steps ? step / *steps > saved / *steps : seconds && after_seconds >= *seconds;
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
