#include "troupe/distributed/membership/credentials.h"

#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/options/cluster_reach.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

void check_names(const std::vector<Member>& members) {
  for (const Member& member : members) {
    if (!member.task.empty() && member.task.size() <= kMaxTaskBytes) continue;
    throw ConfigError(text("the task's name '", member.task, "' has ", member.task.size(),
                           " bytes, not 1 to ", kMaxTaskBytes, "."),
                      "give it a shorter one in the cluster description.");
  }
}

}  // namespace

bool encrypts(const Cluster& cluster, const GroupOptions& options) {
  return leaves_machine(cluster) && !options.insecure;
}

Credentials credentials_of(const Cluster& cluster, const GroupOptions& options) {
  const bool alone = cluster.world_size() == 1 && cluster.servers.empty();
  if (alone) return {options.secret, false, cluster.task(), cluster.generation};
  if (!options.secret) {
    throw ConfigError(text(cluster.task(), " (from ", cluster.origin,
                           ") has no secret, and nobody takes part in a group without it."),
                      "start the group with `troupe run`, or give all of its processes the same "
                      "secret by --secret-file or TROUPE_SECRET_FILE (`troupe secret` makes one).");
  }
  check_names(cluster.members);
  check_names(cluster.servers);
  return {options.secret, encrypts(cluster, options), cluster.task(), cluster.generation};
}

void warn_of_open_traffic(const Cluster& cluster, const GroupOptions& options) {
  if (!leaves_machine(cluster) || !options.insecure) return;
  log_warning(
      "not encrypted (--insecure): whoever is on the network can read and change what travels "
      "between machines");
}

}  // namespace troupe
