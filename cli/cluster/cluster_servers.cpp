#include "troupe/cli/cluster/cluster_servers.h"

#include <optional>
#include <set>

#include "troupe/cli/cluster/address.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr int kMaxServers = kMaxWorkers;

std::vector<Member> server_list(const GivenValue<std::string>& given) {
  std::vector<Member> servers;
  std::set<std::string> seen;
  for (const std::string& each : split(given.value, ',')) {
    const std::string where = text(given.origin, " (ps/", servers.size(), ")");
    const Endpoint address = parse_address(each, where);
    if (!seen.insert(address_text(address)).second) {
      throw ConfigError(text(given.origin, " names ", address_text(address), " twice."),
                        "give every server an address of its own.");
    }
    servers.push_back({text("ps/", servers.size()), address});
    if (servers.size() > static_cast<std::size_t>(kMaxServers)) {
      throw ConfigError(text(given.origin, " names more than ", kMaxServers, " servers."),
                        "name fewer.");
    }
  }
  return servers;
}

/// N of "ps:N".
int server_index(const GivenValue<std::string>& task, std::size_t servers) {
  const auto cut = task.value.find_first_of(":/");
  const auto index =
      cut == std::string::npos ? std::nullopt : parse_integer<int>(task.value.substr(cut + 1));
  if (!index || *index < 0) {
    throw ConfigError(text(task.origin, " is \"", task.value, "\"."),
                      "write job and index, for example ps:0.");
  }
  if (static_cast<std::size_t>(*index) >= servers) {
    throw ConfigError(text(task.origin, " is ", task.value, ", but --servers names ", servers,
                           servers == 1 ? " server." : " servers."),
                      text("servers count from 0 to ", servers - 1, "."));
  }
  return *index;
}

}  // namespace

bool asks_for_job(const ClusterRequest& request, const std::string& job) {
  if (!request.task) return false;
  const std::string& task = request.task->value;
  return task.substr(0, task.find_first_of(":/")) == job;
}

bool asks_for_server(const ClusterRequest& request, std::vector<std::string>& information) {
  if (!asks_for_job(request, "ps")) return false;
  if (!request.rank) return true;
  const GivenValue<std::string>& task = *request.task;
  if (request.rank->level == task.level) {
    throw ConfigError(
        text(task.origin, " asks for a parameter server, but ", request.rank->origin, " is given."),
        "leave one of the two out: a server has no rank.");
  }
  const bool serves = task.level < request.rank->level;
  information.push_back(text("cluster: ", serves ? request.rank->origin : task.origin,
                             " is ignored, since ", serves ? task.origin : request.rank->origin,
                             " is given"));
  return serves;
}

void add_servers(Cluster& cluster, const ClusterRequest& request, ServerRole role) {
  if (!request.servers) {
    if (role == ServerRole::worker) return;
    throw ConfigError(text(request.task->origin,
                           " asks for a parameter server, but --servers is "
                           "missing."),
                      "give --servers HOST:PORT,..., the same on every process.");
  }
  cluster.servers = server_list(*request.servers);
  if (role == ServerRole::worker) return;
  cluster.server = server_index(*request.task, cluster.servers.size());
  cluster.origin = request.task->origin;
}

std::string server_addresses(const Cluster& cluster) {
  std::vector<std::string> all;
  for (const Member& server : cluster.servers) all.push_back(address_text(*server.address));
  return join(all, ",");
}

}  // namespace troupe
