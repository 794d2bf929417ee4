// What every strategy does with one replica: make it from the hooks, and run one step on it in the
// right mode.
#pragma once

#include <memory>

#include "strategies/strategy.h"

namespace troupe::detail {

/// A replica made by the hooks on its device. The generators are started with `seed` for the
/// initial weights, then with a stream of the replica's own for everything random in its steps.
/// Throws: ConfigError, and TodoError for an unfilled template.
[[nodiscard]] std::unique_ptr<Replica> make_replica(const Hooks& hooks, const ReplicaPlace& place,
                                                    std::uint64_t seed, ParameterUpdate& update,
                                                    const StepOptions& options);

/// Runs `step` on the replica: batch to its device, module mode, gradient switch, precision, and a
/// result of zero when the batch is padding. Losses come back without their graphs.
/// With StepOptions::accumulate = N a training batch is run as N parts, the last of which updates
/// the parameters; the result is the sum of theirs.
[[nodiscard]] StepResult run_on_replica(const Step& step, Replica& replica, const Batch& batch,
                                        Phase phase);

}  // namespace troupe::detail
