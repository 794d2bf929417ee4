// MultiWorkerMirrored: one replica per worker process, parameters equal on all, gradients summed
// over the worker group in every step.
#pragma once

#include <memory>

#include "strategies/options.h"
#include "strategies/strategy.h"

namespace troupe {

/// Binds this worker's listening socket; the group meets in create_state, when the model that the
/// workers must agree on is known.
/// Throws: ConfigError for an unknown device, EnvironmentError when the port is taken.
[[nodiscard]] std::unique_ptr<Strategy> make_multi_worker(const StrategyOptions& options);

}  // namespace troupe
