// The strategy that the options name.
#pragma once

#include <memory>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// Automatic is parameter-server for a cluster with servers, else multi-worker for more than one
/// worker, else mirrored for more than one replica, else one-device. Sets the number of compute
/// threads. Throws: ConfigError where kind and cluster disagree; what the strategies' makers throw.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options);

}  // namespace troupe
