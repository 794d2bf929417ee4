// Values of gradients on their way into a flat tensor: copied and looked at in one pass. Free of
// LibTorch.
#pragma once

#include <cstddef>

namespace troupe::detail {

/// Copies `count` values. Returns whether none is greater than `limit` in magnitude; a NaN is.
[[nodiscard]] bool copy_within(const float* from, float* into, std::size_t count, float limit);
[[nodiscard]] bool copy_within(const double* from, double* into, std::size_t count, double limit);

/// The look alone.
[[nodiscard]] bool are_within(const float* values, std::size_t count, float limit);
[[nodiscard]] bool are_within(const double* values, std::size_t count, double limit);

}  // namespace troupe::detail
