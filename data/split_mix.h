// SplitMix: random numbers that are the same to the last bit everywhere. Only integers, and sums,
// differences and products of floats, which IEEE 754 defines; files that use the floats are
// compiled without contraction of a * b + c.
#pragma once

#include <cfloat>
#include <cstdint>

static_assert(FLT_EVAL_METHOD == 0, "floats must be computed in float precision");

namespace troupe::detail {

/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
class SplitMix {
 public:
  using result_type = std::uint64_t;  // a UniformRandomBitGenerator of the standard library
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT64_MAX; }

  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  result_type operator()() { return next(); }

  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  /// [0, bound). Slightly uneven, by less than bound / 2^64.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 40) * (1.0F / 16777216.0F); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Mean 0, variance 1: the sum of twelve uniforms, which needs no logarithm.
  float normal() {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum - 6.0F;
  }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::detail
