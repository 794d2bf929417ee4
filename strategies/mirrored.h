// Mirrored: several replicas in one process, parameters equal on all, gradients summed in memory.
#pragma once

#include <memory>

#include "options/strategy_options.h"
#include "strategies/strategy.h"

namespace troupe {

/// Throws: ConfigError for unknown devices or a cluster of more than one worker, EnvironmentError
/// for devices that are not there.
[[nodiscard]] std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options);

}  // namespace troupe
