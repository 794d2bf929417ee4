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
  /// Whether the next save is due, so long after the last one.
  [[nodiscard]] bool is_due(std::int64_t after_steps, double after_seconds) const;
};
[[nodiscard]] CheckpointCadence checkpoint_cadence(const TrainOptions& options);

}  // namespace troupe
