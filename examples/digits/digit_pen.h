// From the pen's path to pixels, framed as MNIST frames its digits: the ink's longer side fills 20
// pixels, its centre of mass lies in the middle of 28x28.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/digits/digit_random.h"
#include "examples/digits/digit_templates.h"

namespace troupe::detail {

/// Draws `path` (any units, y downwards, not empty) with a pen of about `pen_radius` pixels into
/// `image`, kDigitPixels bytes, row by row: 0 paper, 255 ink.
void draw_image(const std::vector<Stroke>& path, float pen_radius, SplitMix& random,
                std::uint8_t* image);

}  // namespace troupe::detail
