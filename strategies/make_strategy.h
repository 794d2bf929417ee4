// The strategy that the options name.
#pragma once

#include <memory>

#include "strategies/options.h"
#include "strategies/strategy.h"

namespace troupe {

/// "auto" is one-device for one worker and multi-worker for more. Sets the number of compute
/// threads. Throws: ConfigError for an unknown name; what the strategies' own makers throw.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options);

}  // namespace troupe
