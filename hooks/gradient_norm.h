// The global 2-norm of an optimiser's gradients, and its limit.
#pragma once

#include <vector>

#include "hooks/parameter_update.h"

namespace troupe::detail {

/// The square root of the sum of squares of all gradients, added up in float64. On the CPU its bits
/// depend neither on the number of compute threads nor on the width of the vector unit, so equal
/// gradients give replicas on different machines the same number. Parameters without a gradient
/// count as zero. Repeated rows of a sparse gradient are added first.
/// Throws: NonFiniteError if the norm is not finite.
[[nodiscard]] double gradient_norm(const std::vector<NamedTensor>& parameters);

/// The same in two halves, between which replicas that have the gradients of different parameters
/// add their sums up: each parameter's sum of squares [number of parameters], float64, on the CPU;
/// and the norm by all of them.
[[nodiscard]] at::Tensor sums_of_squares(const std::vector<NamedTensor>& parameters);
[[nodiscard]] double norm_by(const at::Tensor& sums_of_squares);

/// Multiplies every gradient by `factor`, in place; a sparse one is coalesced.
void scale_gradients(const std::vector<NamedTensor>& parameters, double factor);

}  // namespace troupe::detail
