// OneDevice: one replica in one process, no communication.
#pragma once

#include <memory>

#include "options/strategy_options.h"
#include "strategies/strategy.h"

namespace troupe {

/// Throws: ConfigError for an unknown device or more than one worker or replica.
[[nodiscard]] std::unique_ptr<Strategy> make_one_device(const StrategyOptions& options);

}  // namespace troupe
