// Options of one training step. Plain data, free of LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct StepOptions {
  /// Parts in which each replica computes its share of a step, one after the other: their gradients
  /// are added up, with one reduction and one update at the end. The step's examples stay the same.
  std::int64_t accumulate = 1;
  /// Limit of the gradients' global 2-norm, after the reduction; 0: none.
  double clip_norm = 0;
  /// float32, or bfloat16: forward passes run under LibTorch's autocast, parameters stay float32.
  std::string precision = "float32";

  /// Throws: ConfigError naming the flag whose value is out of range.
  void validate() const;
};

}  // namespace troupe
