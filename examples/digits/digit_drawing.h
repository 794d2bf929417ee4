// How a digit is written: from a template to the pen's path, control points moved, curves drawn
// through them, the whole bent and slanted as one writer does it; and from the path to pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/digits/digit_random.h"

namespace troupe::detail {

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
