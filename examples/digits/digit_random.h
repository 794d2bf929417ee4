// A sine for generated digits that is the same to the last bit everywhere, as SplitMix is.
#pragma once

#include "troupe/data/split_mix.h"

namespace troupe::detail {

inline constexpr float kPi = 3.14159265358979F;

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
