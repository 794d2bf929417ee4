#include "distributed/cluster.h"

#include <algorithm>

#include "net/address.h"

namespace troupe {

int Cluster::workers_here() const {
  if (on_this_machine > 0) return on_this_machine;
  const auto meeting_point = servers.empty() ? members.front().address : servers.front().address;
  if (!meeting_point || is_loopback_host(meeting_point->host)) return world_size();
  const auto& own = members[static_cast<std::size_t>(rank)].address;
  if (!own) return 1;
  return static_cast<int>(std::count_if(members.begin(), members.end(), [&](const Member& other) {
    return other.address && other.address->host == own->host;
  }));
}

}  // namespace troupe
