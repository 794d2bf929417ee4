// Options of data/: which examples are read. Plain data, free of LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct DataOptions {
  std::string data_dir;             // empty: the data set that the program generates
  std::int64_t train_examples = 0;  // the first N training examples only; 0: all
};

}  // namespace troupe
