// A fingerprint of the weights: equal on all replicas, or something is wrong.
#pragma once

#include <string>

#include "strategies/strategy.h"

namespace troupe {

/// SHA-256 over name, dtype, shape and bytes of every parameter, then every buffer, in order.
[[nodiscard]] std::string parameter_hash(const Replica& replica);

/// The same, computed for every replica of every worker and compared.
/// Collective: yes.  Throws: DesyncError on every rank, naming a replica whose weights differ.
[[nodiscard]] std::string common_parameter_hash(Strategy& strategy, const TrainState& state);

}  // namespace troupe
