// A fingerprint of the weights: equal on all replicas, or something is wrong.
#pragma once

#include <string>

#include "troupe/strategies/strategy.h"

namespace troupe {

/// SHA-256 over name, dtype, shape and bytes of every parameter, then every buffer, in order.
[[nodiscard]] std::string parameter_hash(const Replica& replica);

/// That of the weights that all replicas of all workers hold; they are compared first.
/// Collective: yes.  Throws: WeightsDiffer (strategies/kinds/weight_comparison.h) on every rank.
[[nodiscard]] std::string common_parameter_hash(Strategy& strategy, const TrainState& state);

}  // namespace troupe
