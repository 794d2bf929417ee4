// StepContext: what the framework tells a replica before each step.
#pragma once

#include <cstdint>

#include "hooks/phase.h"

namespace troupe::detail {

/// Of a step, or of each part of one that is accumulated.
struct StepContext {
  Phase phase = Phase::train;
  std::int64_t global_examples = 0;  // of the step over all replicas; global_mean divides by it
  std::int64_t examples = 0;         // B
  /// `padding`: the examples are borrowed, so that this replica takes as many steps as the others;
  /// nothing of this step may count.
  enum class Batch { own, padding } batch = Batch::own;
  std::int64_t part = 0;  // of `parts`, which are one step
  std::int64_t parts = 1;

  [[nodiscard]] bool is_padding() const { return batch == Batch::padding; }
};

}  // namespace troupe::detail
