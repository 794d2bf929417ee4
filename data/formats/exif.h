// EXIF: what a camera notes beside a picture. Of it all, how the camera was held. Free of LibTorch.
// Source: CIPA DC-008-2019, Exif 2.32, 4.5 and 4.6; TIFF 6.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "troupe/core/span.h"
#include "troupe/data/formats/image_file.h"

namespace troupe::detail {

/// The orientation, 1 to 8, that a TIFF structure notes in its first directory; 1, upright, where
/// there is none or it is damaged: viewers show such a picture as it is.
[[nodiscard]] int exif_orientation(Span<const std::uint8_t> tiff);

/// The picture as it is to be seen: mirrored and turned by its orientation.
[[nodiscard]] Image upright(Image image, int orientation);

}  // namespace troupe::detail
