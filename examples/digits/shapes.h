// Generated pictures of ten coloured shapes, in CIFAR-10's format, for runs without its files.
// Place, size and colours say nothing about the class, and there is noise. Free of LibTorch.
//
// The same to the last bit on every machine: integers only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/data/formats/cifar.h"

namespace troupe {

/// `count` pictures. Picture i depends on (i, seed) alone, so a smaller count gives a prefix. The
/// classes, 0 to 9: disc, ring, square, frame, triangle, upright cross, diagonal cross, bars that
/// lie, bars that stand, chequers. Mirrored left to right each stays what it is.
/// Throws: ConfigError if count is negative.
[[nodiscard]] std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> generate_shapes(
    std::int64_t count, std::uint64_t seed);

}  // namespace troupe
