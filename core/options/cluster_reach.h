// Whether a job stays on one machine, and which of its workers share this one, as its description
// says: every process comes to the same answer without asking another.
#pragma once

#include "troupe/core/options/cluster.h"

namespace troupe {

/// True for 127.0.0.0/8, ::1 and the name "localhost". Any other name counts as outside, whatever
/// it resolves to today.
[[nodiscard]] bool is_loopback_host(const std::string& host);

/// True if a group of several processes has an address outside loopback. Workers without one listen
/// where they reach the chief.
[[nodiscard]] bool leaves_machine(const Cluster& cluster);

/// Workers of the group on this machine, as far as can be told before they meet: what the launcher
/// says; all, where they meet on loopback; else those whose address names the host that this
/// worker's names. Others, without an address, do not count.
[[nodiscard]] int workers_here(const Cluster& cluster);

}  // namespace troupe
