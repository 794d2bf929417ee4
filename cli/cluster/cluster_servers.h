// Parameter servers of a group that flags or a launcher describe by numbers: --servers lists their
// addresses, --task ps:N makes a process one of them.
#pragma once

#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"

namespace troupe {

/// Whether --task asks for this job: "ps" of "ps:1" or "ps/1".
[[nodiscard]] bool asks_for_job(const ClusterRequest& request, const std::string& job);

/// Whether this process is to be a server, of a group given by numbers. A server has no rank: the
/// stronger of --task and --rank speaks, and `information` gets a line about the other.
/// Throws: ConfigError where both come from one source.
[[nodiscard]] bool asks_for_server(const ClusterRequest& request,
                                   std::vector<std::string>& information);

enum class ServerRole { worker, server };

/// Adds the servers of --servers to a group of workers and, as a server, this process's place.
/// Throws: ConfigError for a bad address, one that is given twice, an index without an address, a
/// server without --servers.
void add_servers(Cluster& cluster, const ClusterRequest& request, ServerRole role);

/// "a:1,b:2", as --servers takes it.
[[nodiscard]] std::string server_addresses(const Cluster& cluster);

}  // namespace troupe
