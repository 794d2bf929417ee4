// The guard between the reduced gradient and the optimiser.
#pragma once

#include <vector>

#include "hooks/parameter_update.h"

namespace troupe::detail {

/// Throws: NonFiniteError naming the first parameter whose gradient holds an infinity or a NaN.
/// Given the reduced gradients, which are equal on all replicas, all replicas decide alike.
/// Cost: one pass over each gradient.
void check_finite_gradients(const std::vector<NamedTensor>& parameters);

}  // namespace troupe::detail
