// The built-in flags about the exchange of gradients between workers.
#pragma once

#include <vector>

#include "cli/flags.h"
#include "options/strategy_options.h"

namespace troupe::detail {

/// Appends the flags, in the order of --help. `strategy` must outlive them.
void add_exchange_flags(std::vector<Flag>& flags, StrategyOptions& strategy);

}  // namespace troupe::detail
