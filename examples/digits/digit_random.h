// Random numbers and a sine for generated digits that are the same to the last bit everywhere: only
// integers, and +, -, * of floats, which IEEE 754 defines. Files that include this are compiled
// without contraction of a * b + c.
#pragma once

#include <cfloat>
#include <cstdint>

static_assert(FLT_EVAL_METHOD == 0, "floats must be computed in float precision");

namespace troupe::detail {

inline constexpr float kPi = 3.14159265358979F;

/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

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

/// The nearest integer, halves away from 0; |x| below 2^31.
inline int round_to_int(float x) { return static_cast<int>(x < 0 ? x - 0.5F : x + 0.5F); }

/// sin(x) to about 1e-5, for |x| below 1000: x is taken to [-pi/2, pi/2], where the Taylor
/// polynomial of degree 9 is that close.
inline float sine(float x) {
  const int half_turns = round_to_int(x * (1.0F / kPi));
  const float r = x - static_cast<float>(half_turns) * kPi;
  const float r2 = r * r;
  const float series =
      r *
      (1.0F + r2 * (-1.0F / 6 + r2 * (1.0F / 120 + r2 * (-1.0F / 5040 + r2 * (1.0F / 362880)))));
  return half_turns % 2 == 0 ? series : -series;
}
inline float cosine(float x) { return sine(x + kPi / 2); }

}  // namespace troupe::detail
