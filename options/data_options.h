// Options of data/: which examples are read, and how they are grouped into steps. Plain data, free
// of LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct BatchPlan {
  std::int64_t global_batch = 64;  // examples per step over all replicas
  std::uint64_t seed = 1;          // for the order of the training examples
};

struct DataOptions {
  std::string data_dir;             // empty: the program generates its data
  std::int64_t train_examples = 0;  // the first N training examples only; 0: all
};

}  // namespace troupe
