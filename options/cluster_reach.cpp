#include "options/cluster_reach.h"

#include <algorithm>

#include "core/loopback.h"

namespace troupe {

bool leaves_machine(const Cluster& cluster) {
  const auto outside = [](const Member& member) {
    return member.address && !is_loopback_host(member.address->host);
  };
  if (cluster.world_size() == 1 && cluster.servers.empty()) return false;
  return std::any_of(cluster.members.begin(), cluster.members.end(), outside) ||
         std::any_of(cluster.servers.begin(), cluster.servers.end(), outside);
}

}  // namespace troupe
