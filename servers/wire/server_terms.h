// What a worker and a server must agree on beside JoinTerms, and where servers may listen.
#pragma once

#include "distributed/worker_group.h"
#include "options/cluster.h"
#include "servers/wire/placement.h"
#include "servers/wire/staleness.h"

namespace troupe {

/// `terms`, with pace and placement among the settings that must match.
[[nodiscard]] JoinTerms server_terms(JoinTerms terms, const Staleness& pace,
                                     const ServedModel& model);

/// Throws: ConfigError for an address outside loopback without `insecure`, and for more processes
/// than the protocol has numbers.
void check_server_addresses(const Cluster& cluster, const GroupOptions& options);

}  // namespace troupe
