// How many workers share this machine.
#pragma once

#include "options/cluster.h"

namespace troupe {

/// Workers of the group on this machine, as far as can be told before they meet: what the launcher
/// says; all, where they meet on loopback; else those whose address names the host that this
/// worker's names. Others, without an address, do not count.
[[nodiscard]] int workers_here(const Cluster& cluster);

}  // namespace troupe
