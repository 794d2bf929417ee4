// Phase: what a step is for. The framework sets it, and with it the modules' mode, the gradient
// switch and which metrics add up. StepProgress: where in the training a step is. StepContext: what
// a replica is given before each step.
#pragma once

#include <cstdint>

namespace troupe {

enum class Phase { train, validation, test, predict };

[[nodiscard]] constexpr const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::train:
      return "train";
    case Phase::validation:
      return "validation";
    case Phase::test:
      return "test";
    case Phase::predict:
      return "predict";
  }
  return "?";
}

/// Where in the training a step is.
struct StepProgress {
  std::int64_t step = 0;   // training steps before this one, a resumed run's former ones too
  std::int64_t epoch = 0;  // of the training batch, from 0; 0 outside train_step
  std::int64_t part = 0;   // of `parts` (--accumulate), which are one step
  std::int64_t parts = 1;
  Phase phase = Phase::train;
};

namespace detail {

/// Of a step, or of each part of an accumulated step.
struct StepContext {
  Phase phase = Phase::train;
  std::int64_t global_examples = 0;  // of the step over all replicas; global_mean divides by it
  std::int64_t examples = 0;         // B
  /// The examples are borrowed, so that this replica takes as many steps as the others; the step
  /// must not count for anything.
  bool padding = false;
  std::int64_t part = 0;  // of `parts`, which are one step
  std::int64_t parts = 1;
  std::int64_t step = 0;  // as in StepProgress
  std::int64_t epoch = 0;
};

}  // namespace detail
}  // namespace troupe
