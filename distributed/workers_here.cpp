#include "distributed/workers_here.h"

#include <algorithm>

#include "net/address.h"

namespace troupe {

int workers_here(const Cluster& cluster) {
  if (cluster.on_this_machine > 0) return cluster.on_this_machine;
  const auto meeting_point =
      cluster.servers.empty() ? cluster.members.front().address : cluster.servers.front().address;
  if (!meeting_point || is_loopback_host(meeting_point->host)) return cluster.world_size();
  const auto& own = cluster.members[static_cast<std::size_t>(cluster.rank)].address;
  if (!own) return 1;
  return static_cast<int>(std::count_if(
      cluster.members.begin(), cluster.members.end(),
      [&](const Member& other) { return other.address && other.address->host == own->host; }));
}

}  // namespace troupe
