// Whether all workers still train the same model: compared every so many steps and before a save.
#pragma once

#include <cstdint>
#include <optional>

#include "strategies/strategy.h"

namespace troupe::detail {

enum class Compared {
  weights,       // the parameters of all replicas
  what_is_saved  // also what the chief saves for all: averaged weights and the optimisers' state
};

/// Compares replicas and workers; a replica that is alone is equal to itself. Buffers are not
/// compared: each replica has its own while it trains. `saved`: the step of the newest checkpoint,
/// for the error.  Collective: yes.  Throws: WeightsDiffer on every worker; ConfigError for an
/// optimiser that cannot be saved, if it would be.
void check_weights(Strategy& strategy, const TrainState& state, Compared compared,
                   std::optional<std::int64_t> saved);

}  // namespace troupe::detail
