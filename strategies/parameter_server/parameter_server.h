// Parameter servers: the model's parameters live on servers, which take the optimisers' steps; each
// worker fetches values, computes gradients on its replicas and pushes them, at its own pace. See
// docs/parameter_servers.md.
#pragma once

#include <memory>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// The strategy of a worker or the chief. Throws: ConfigError without servers in the cluster, in a
/// server's process, or for conflicting options.
[[nodiscard]] std::unique_ptr<Strategy> make_parameter_server(const StrategyOptions& options);

/// Runs a server until training ends: makes the model with the hooks, for its optimisers, and
/// serves until the chief is done. Blocks: as long as training. Throws: as ServerProcess;
/// ConfigError for hooks that cannot be served.
void serve_parameters(const Hooks& hooks, const StrategyOptions& options);

/// The line that runs a program's server processes; in all others it returns false at once.
///   if (troupe::serve_if_server(hooks, options.strategy)) return 0;
[[nodiscard]] bool serve_if_server(const Hooks& hooks, const StrategyOptions& options);

}  // namespace troupe
