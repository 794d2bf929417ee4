// Values of gradients on their way into a flat tensor: copied and looked at in one pass, which g++
// vectorises at -O3. Free of LibTorch.
#pragma once

#include <cmath>
#include <cstddef>

namespace troupe::detail {

/// Copies `count` values of float or double. Returns whether none is greater than `limit` in
/// magnitude; a NaN is.
// One pass: 347 thousand float32 out of the level-2 cache took 114 us, memcpy alone 103, and
// memcpy block by block with a look at each block after it 180. AVX2 did not take less.
template <class Value>
[[nodiscard]] bool copy_within(const Value* __restrict from, Value* __restrict into,
                               std::size_t count, Value limit) {
  int beyond = 0;
  for (std::size_t i = 0; i < count; ++i) {
    into[i] = from[i];
    beyond |= std::fabs(from[i]) <= limit ? 0 : 1;
  }
  return beyond == 0;
}

/// The look alone.
template <class Value>
[[nodiscard]] bool are_within(const Value* values, std::size_t count, Value limit) {
  int beyond = 0;
  for (std::size_t i = 0; i < count; ++i) beyond |= std::fabs(values[i]) <= limit ? 0 : 1;
  return beyond == 0;
}

}  // namespace troupe::detail
