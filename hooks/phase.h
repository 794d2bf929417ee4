// Phase: what a step is for. The framework sets it, and with it the modules' mode, the gradient
// switch and which metrics add up.
#pragma once

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

}  // namespace troupe
