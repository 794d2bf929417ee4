// Options of data/: which examples are read, and how they are grouped into steps. Plain data, free
// of LibTorch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

inline constexpr int kMostLoaderThreads = 256;

/// How examples are read ahead of the steps that use them. The numbers do not depend on it.
struct LoaderOptions {
  int prefetch_steps = 2;  // finished steps that may wait for the training thread; at least 1
  std::chrono::milliseconds warn_after{30'000};  // of waiting for Dataset::get(), repeatedly
  /// That read, each a step of its own, up to kMostLoaderThreads. Several call the data set at the
  /// same time. 0: the training thread reads each step when it asks for it.
  int threads = 1;
  /// Batches lie in pinned memory, which a GPU reads while the host continues. Set by the strategy.
  bool pin_memory = false;
};

struct BatchPlan {
  std::int64_t global_batch = 64;  // examples per step over all replicas
  std::uint64_t seed = 1;          // for the order of the training examples
  LoaderOptions loader{};
  bool drop_last = false;  // a short last batch of training is left out
};

struct DataOptions {
  std::string data_dir;             // empty: the program generates its data
  std::int64_t train_examples = 0;  // the first N training examples only; 0: all
};

}  // namespace troupe
