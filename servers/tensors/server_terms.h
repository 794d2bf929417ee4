// What workers and parameter servers of one job must agree on.
#pragma once

#include "distributed/worker_group.h"
#include "hooks/replica.h"
#include "options/strategy_options.h"
#include "servers/wire/staleness.h"

namespace troupe::detail {

[[nodiscard]] Staleness staleness_of(const ServerOptions& options);

/// The terms that this process joins with. `replica` is one made by its hooks.
[[nodiscard]] JoinTerms terms_of(const StrategyOptions& options, const Replica& replica);

/// Throws: ConfigError for options that parameter servers do not do, or a cluster without servers.
void check_server_options(const StrategyOptions& options);

}  // namespace troupe::detail
