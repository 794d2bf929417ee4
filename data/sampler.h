// Sampler: the order in which an epoch reads a data set. A pure function of its arguments, so every
// worker knows it without a message. Free of LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What the order of an epoch is drawn from.
struct EpochDraw {
  std::int64_t examples = 0;  // of the data set
  std::int64_t batch = 1;     // examples of a global batch
  std::uint64_t seed = 1;
  std::int64_t epoch = 0;

  /// A generator that depends on seed and epoch alone, and whose output the standard defines.
  [[nodiscard]] std::mt19937_64 random() const;
};

/// Unbiased number in [0, bound), the same with every standard library; bound >= 1.
[[nodiscard]] std::uint64_t draw_below(std::uint64_t bound, std::mt19937_64& random);

/// One's own is `Sampler{"name", function}`. The function runs on every worker and must return the
/// same there; it may be called from several threads at once.
struct Sampler {
  std::string name;
  /// Numbers of examples, in the order in which they are read: `draws` of them, or each example
  /// once. Consecutive examples form a batch; the last batch may be short.
  std::function<std::vector<std::int64_t>(const EpochDraw&)> order{};
  /// Examples may be read several times in an epoch, or not at all. Otherwise an order in which an
  /// example is missing is an error.
  bool repeats = false;
  std::int64_t draws = 0;  // of an epoch; 0: as many as there are examples
  /// The order depends on nothing but its argument. Otherwise workers compare the first epoch's.
  bool argument_alone = false;
};

/// A permutation: a new one each epoch.
/// Source: Fisher and Yates' shuffle.
[[nodiscard]] Sampler shuffled();

/// 0, 1, 2, ... in every epoch.
[[nodiscard]] Sampler sequential();

/// With replacement: each draw takes example i with probability weights[i] / sum. `draws` of an
/// epoch; 0: as many as there are examples.
/// Throws: ConfigError unless all weights are finite and at least 0, their sum is finite and above
/// 0, and draws >= 0. The order throws it where the data set has another number of examples.
[[nodiscard]] Sampler weighted(std::vector<double> weights, std::int64_t draws = 0);

/// Each example once, in batches of similar lengths: the examples are shuffled, sorted by length
/// within groups of `batches` batches, and the batches of the epoch are shuffled. More batches in a
/// group mean less padding and less chance.
/// Throws: ConfigError if batches < 1. The order throws it where the data set has another number of
/// examples.
[[nodiscard]] Sampler bucketed(std::vector<std::int64_t> lengths, std::int64_t batches = 100);

namespace detail {

/// Source: Fisher and Yates' shuffle, from the end.
template <class Iterator>
void shuffle(Iterator begin, Iterator end, std::mt19937_64& random) {
  for (auto left = static_cast<std::uint64_t>(end - begin); left > 1; --left) {
    const auto other = static_cast<std::ptrdiff_t>(draw_below(left, random));
    std::swap(begin[static_cast<std::ptrdiff_t>(left - 1)], begin[other]);
  }
}

}  // namespace detail
}  // namespace troupe
