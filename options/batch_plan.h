// BatchPlan: how data becomes steps. Plain data, free of LibTorch.
#pragma once

#include <cstdint>

namespace troupe {

struct BatchPlan {
  std::int64_t global_batch = 64;  // examples of a step over all replicas
  std::uint64_t seed = 1;          // of the order of the training examples
};

}  // namespace troupe
