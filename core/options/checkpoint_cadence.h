// When a checkpoint is due.
#pragma once

#include <cstdint>
#include <optional>

#include "troupe/core/options/train_options.h"

namespace troupe {

/// With defaults filled in: one of the two, or neither (never).
struct CheckpointCadence {
  std::optional<std::int64_t> steps;
  std::optional<double> seconds;

  [[nodiscard]] bool never() const { return !steps && !seconds; }
  /// Whether a save is due at `step`, with the newest checkpoint of step `saved`, which is so many
  /// seconds old. By steps it depends on the step alone: a save in between moves none of those that
  /// follow.
  [[nodiscard]] bool is_due(std::int64_t step, std::int64_t saved, double after_seconds) const;
};
[[nodiscard]] CheckpointCadence checkpoint_cadence(const TrainOptions& options);

}  // namespace troupe
