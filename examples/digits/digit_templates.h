// The shapes that generated digits start from: for each digit three or four ways to write it, as
// strokes of a pen through control points in the unit square, y downwards.
#pragma once

#include <vector>

namespace troupe::detail {

struct Point {
  float x = 0;
  float y = 0;
};

/// Control points in the order the pen passes them, at least two.
using Stroke = std::vector<Point>;
/// The strokes of one way to write a digit. Strokes that meet share the point bit for bit.
using Glyph = std::vector<Stroke>;

/// The ways to write `digit` (0 .. 9), never empty.
[[nodiscard]] const std::vector<Glyph>& digit_templates(int digit);

}  // namespace troupe::detail
