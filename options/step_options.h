// Options of one training step. Plain data, free of LibTorch.
#pragma once

#include <cstdint>

namespace troupe {

/// Type of the forward passes. bfloat16: they run under LibTorch's autocast, and parameters stay
/// float32.
enum class Precision { float32, bfloat16 };
[[nodiscard]] constexpr const char* name_of(Precision precision) {
  return precision == Precision::float32 ? "float32" : "bfloat16";
}

struct StepOptions {
  /// Parts in which each replica computes its share of a step, one after the other: their gradients
  /// are added up, with one reduction and one update at the end. The step's examples stay the same.
  std::int64_t accumulate = 1;
  /// Limit of the gradients' global 2-norm, after the reduction; 0: none.
  double clip_norm = 0;
  Precision precision = Precision::float32;

  /// Throws: ConfigError naming the flag whose value is out of range.
  void validate() const;
};

}  // namespace troupe
