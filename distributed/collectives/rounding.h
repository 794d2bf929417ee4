// Rounding: how float values become 16 bits for the wire, what that loses, and how sums go on from
// there; the compressed all-reduce works with this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "distributed/worker_group.h"
#include "net/frame.h"

namespace troupe {

/// All functions work on `count` values; arrays do not overlap.
struct Rounding {
  DType dtype = DType::none;
  /// x = values + errors; wire = x rounded; errors = x - wire.
  void (*round)(const float* values, float* errors, std::uint16_t* wire, std::size_t count);
  /// x = values + errors + received, added in float; wire = x rounded; errors = x - wire.
  void (*add_and_round)(const float* values, float* errors, const std::uint16_t* received,
                        std::uint16_t* wire, std::size_t count);
  void (*widen)(const std::uint16_t* wire, float* values, std::size_t count);
};

/// An error that is not finite, as of a value too large for the format, is kept as zero: the value
/// itself shows what happened.
[[nodiscard]] Rounding rounding_to(WireType type);

}  // namespace troupe
