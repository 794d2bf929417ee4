// MultiWorkerMirrored: one replica or several in each worker process, parameters equal on all,
// gradients summed over a worker's replicas in memory and then over the group, in every step.
#pragma once

#include <memory>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/engines/engine.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// Binds this worker's listening socket; the group meets in create_state, when the model that the
/// workers must agree on is known. `wrap`: another engine around its own, for tests and
/// measurements.
/// Throws: ConfigError for unknown devices; as WorkerGroup's constructor, which may block.
[[nodiscard]] std::unique_ptr<Strategy> make_multi_worker(
    const StrategyOptions& options, const detail::EngineWrapper& wrap = nullptr);

}  // namespace troupe
