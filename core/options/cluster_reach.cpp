#include "troupe/core/options/cluster_reach.h"

#include <algorithm>

#include "troupe/core/loopback.h"

namespace troupe {

bool leaves_machine(const Cluster& cluster) {
  const auto outside = [](const Member& member) {
    return member.address && !is_loopback_host(member.address->host);
  };
  if (cluster.world_size() == 1 && cluster.servers.empty()) return false;
  return std::any_of(cluster.members.begin(), cluster.members.end(), outside) ||
         std::any_of(cluster.servers.begin(), cluster.servers.end(), outside);
}

int workers_here(const Cluster& cluster) {
  if (cluster.on_this_machine > 0) return cluster.on_this_machine;
  const auto meeting_point =
      cluster.servers.empty() ? cluster.members.front().address : cluster.servers.front().address;
  if (!meeting_point || is_loopback_host(meeting_point->host)) return cluster.world_size();
  const auto& own = cluster.member(cluster.rank).address;
  if (!own) return 1;
  return static_cast<int>(std::count_if(
      cluster.members.begin(), cluster.members.end(),
      [&](const Member& other) { return other.address && other.address->host == own->host; }));
}

}  // namespace troupe
