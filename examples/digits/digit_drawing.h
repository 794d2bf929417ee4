// How a digit is written: from a template to the pen's path, control points moved, curves drawn
// through them, the whole bent and slanted as one writer does it; and from the path to pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "troupe/data/split_mix.h"

namespace troupe::detail {

// A sine that is the same to the last bit everywhere, as SplitMix is.

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

struct Point {
  float x = 0;
  float y = 0;
};

/// Control points, or points of a path, in the order the pen passes them, at least two.
using Stroke = std::vector<Point>;

/// What the images of one writer have in common.
struct WriterStyle {
  float slant = 0;               // shear; about 0.12 is upright to the eye
  float rotation = 0;            // radians
  float aspect = 1;              // width over height
  float pen_radius = 0;          // pixels
  std::uint64_t favourites = 0;  // 4 bits per digit: the template this writer prefers
};

/// A style as the population of writers has it.
[[nodiscard]] WriterStyle draw_style(SplitMix& random);

/// The path of one image of `digit`: per stroke the points that the pen passes, in template units,
/// centred on 0.
[[nodiscard]] std::vector<Stroke> draw_path(int digit, const WriterStyle& style, SplitMix& random);

/// Draws `path` (any units, y downwards, not empty) with a pen of about `pen_radius` pixels into
/// `image`, kDigitPixels bytes, row by row: 0 paper, 255 ink. Framed as MNIST frames its digits:
/// the ink's longer side fills 20 pixels, its centre of mass lies in the middle of 28x28.
void draw_image(const std::vector<Stroke>& path, float pen_radius, SplitMix& random,
                std::uint8_t* image);

}  // namespace troupe::detail
