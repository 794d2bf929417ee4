// Sums over workers by name: a step's losses may come in another order on another replica.
#pragma once

#include <vector>

#include "hooks/values.h"
#include "strategies/strategy.h"

namespace troupe::detail {

/// Sums `named` over all workers by name, in whatever order each worker has them, and `more` by
/// position; both in place and in one message.
/// Collective: yes.  Throws: ConfigError, on all workers, where names differ between workers.
void sum_by_name(Strategy& strategy, LossValues& named, std::vector<double>& more);

/// The losses of a worker's replicas, added by name, in the first replica's order.
/// Throws: ConfigError where a replica lacks a loss that another one has.
[[nodiscard]] LossValues add_by_name(const std::vector<StepResult>& results);

}  // namespace troupe::detail
