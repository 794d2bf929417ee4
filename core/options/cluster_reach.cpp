#include "troupe/core/options/cluster_reach.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace troupe {

bool is_loopback_host(const std::string& host) {
  if (host == "localhost") return true;
  if (host.find('\0') != std::string::npos) return false;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

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
