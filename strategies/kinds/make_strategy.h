// The strategy that the options name.
#pragma once

#include <memory>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// StrategyOptions::chosen_kind() of them. Sets the number of compute threads.
/// Throws: as StrategyOptions::validate(); what the strategies' makers throw.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options);

}  // namespace troupe
