// From a template to the pen's path: control points moved, curves drawn through them, the whole
// bent and slanted as one writer does it.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/digits/digit_random.h"
#include "examples/digits/digit_templates.h"

namespace troupe::detail {

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

}  // namespace troupe::detail
