// The global 2-norm of an optimiser's gradients, and its limit.
#pragma once

#include <vector>

#include "troupe/hooks/parameter_update.h"

namespace troupe::detail {

/// The square root of the sum of squares of all gradients, added up in float64. On the CPU its bits
/// depend neither on the number of compute threads nor on the width of the vector unit, so equal
/// gradients give replicas on different machines the same number; on a device the norm of each
/// parameter is rounded to its type. Parameters without a gradient
/// count as zero. Repeated rows of a sparse gradient are added first.
/// Throws: NonFiniteError if the norm is not finite.
[[nodiscard]] double gradient_norm(const std::vector<NamedTensor>& parameters);

/// The 2-norm of each of `values`, which are on one device other than the host. Not finite: a value
/// is not, or its square is beyond its type. The host waits for the device once.
[[nodiscard]] std::vector<double> norms_on_device(const std::vector<at::Tensor>& values);

/// Multiplies every gradient by `factor`, in place; a sparse one is coalesced.
void scale_gradients(const std::vector<NamedTensor>& parameters, double factor);

/// Scales the gradients, as `update` has reduced them, to a norm of at most `limit`; returns the
/// norm that they had, which is that of all replicas' gradients where each has some. Collective:
/// where each has some.  Throws: as gradient_norm().
[[nodiscard]] double clip_gradients(const std::vector<NamedTensor>& parameters, double limit,
                                    ParameterUpdate& update);

}  // namespace troupe::detail
