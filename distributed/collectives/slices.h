// Slices: how values are cut for the ranks that sum them. A slice begins at a multiple of 64 bytes,
// a cache line, so that loops vectorise; the last ones may be short or empty.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/span.h"

namespace troupe {

inline constexpr std::size_t kSliceAlignment = 64;

/// Slices `begin` to `end` of `parts` equal ones.
[[nodiscard]] inline Span<std::byte> slices_of(Span<std::byte> values, int parts, int begin,
                                               int end) {
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t fair = (values.size() + count - 1) / count;
  const std::size_t stride = (fair + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  const std::size_t first = std::min(values.size(), stride * static_cast<std::size_t>(begin));
  const std::size_t last = std::min(values.size(), stride * static_cast<std::size_t>(end));
  return values.subspan(first, last - first);
}

[[nodiscard]] inline Span<std::byte> slice_of(Span<std::byte> values, int parts, int index) {
  return slices_of(values, parts, index, index + 1);
}

}  // namespace troupe
