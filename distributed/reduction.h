// Reduction: how one element type is added; the collectives work on bytes and this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "net/frame.h"

namespace troupe {

struct Reduction {
  DType dtype = DType::none;
  std::size_t element_bytes = 1;
  /// into[i] += from[i] for `count` elements; both aligned to the element, not overlapping.
  std::function<void(std::byte* into, const std::byte* from, std::size_t count)> add;
};

/// For T in {float, double, std::int64_t}. Integers wrap around.
template <class T>
[[nodiscard]] Reduction sum_of();
template <>
Reduction sum_of<float>();
template <>
Reduction sum_of<double>();
template <>
Reduction sum_of<std::int64_t>();

}  // namespace troupe
