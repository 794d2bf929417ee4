// Launch: starts the workers of one group, and parameter servers and an evaluator beside them if
// asked to; passes their output on line by line, and ends with all of them. The first failure that
// training cannot do without stops the group (launch_policy.h says which), and starts it again if
// that was asked for (launch_policy.h). A group may spread over several machines: each runs a
// launcher, a *node*, and node 0 decides (launch_nodes.h). Nothing is left running, whichever way a
// launcher itself ends. docs/running.md and docs/cluster.md are the manual.
#pragma once

#include "troupe/launcher/run/launch_options.h"

namespace troupe {

/// Runs the group to its end. Returns 0 if every process did that training needs, the code of the
/// one that failed first (128 + number if a signal killed it), or 129, 130 or 143 after SIGHUP,
/// SIGINT or SIGTERM; 1 if a server did not end after the training; else the code of the evaluator.
/// Blocks: until the workers end; `grace` bounds only what follows a failure or a signal.
/// Thread: the only one of the process; installs signal handlers.
/// Throws: ConfigError (program not found or not executable), EnvironmentError (log directory,
/// port, no more processes), RendezvousError (a node is missing).
[[nodiscard]] int launch(const LaunchOptions& options);

}  // namespace troupe
