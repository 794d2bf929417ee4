// Options of one training step. Plain data, free of LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct StepOptions {
  /// Batches whose gradients are added up on each replica before one reduction and one update.
  std::int64_t accumulate = 1;
  /// Limit of the gradients' global 2-norm, after the reduction; 0: none.
  double clip_norm = 0;
  /// float32, or bfloat16: forward passes run under LibTorch's autocast, parameters stay float32.
  std::string precision = "float32";
};

}  // namespace troupe
