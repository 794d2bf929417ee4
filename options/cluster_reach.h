// Whether a job stays on one machine, as its description says: every process comes to the same
// answer without asking another.
#pragma once

#include "options/cluster.h"

namespace troupe {

/// True if a group of several processes has an address outside loopback. Workers without one listen
/// where they reach the chief.
[[nodiscard]] bool leaves_machine(const Cluster& cluster);

}  // namespace troupe
