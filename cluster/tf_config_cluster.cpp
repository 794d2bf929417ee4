// From TF_CONFIG's roles to the ranks of a group and the parameter servers beside it.
#include <map>
#include <optional>
#include <vector>

#include "cluster/address.h"
#include "cluster/tf_config.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

constexpr const char* kKnownJobs = "train with the jobs chief, worker and ps.";

void refuse_other_roles(const TfConfig& config) {
  if (config.is_evaluator()) {
    throw ConfigError(
        text(config.name, ".task.type is \"evaluator\", which has no place in a group."),
        kKnownJobs);
  }
  for (const auto& [job, tasks] : config.cluster) {
    if (job == "chief" || job == "worker" || job == "ps" || job == "evaluator") continue;
    throw ConfigError(text(config.cluster_path, '.', job, " names tasks of an unknown kind."),
                      kKnownJobs);
  }
}

/// Appends the tasks of one job, by index. `seen` holds where each address was named.
/// Returns this process's place in `members`; unset where it is none of them.
std::optional<int> append_job(std::vector<Member>& members, const TfConfig& config,
                              const std::string& job, std::map<std::string, std::string>& seen) {
  const auto found = config.cluster.find(job);
  if (found == config.cluster.end()) return std::nullopt;
  std::optional<int> own;
  std::int64_t expected = 0;
  for (const auto& [index, address] : found->second.addresses) {
    const std::string place = text(config.cluster_path, '.', job);
    const std::string where = text(place, '[', index, ']');
    if (index != expected) {
      throw ConfigError(text(place, '[', expected, "] is missing."),
                        "name every task: training connects all of them.");
    }
    ++expected;
    const Endpoint endpoint = parse_address(address, where);
    const auto [first, fresh] = seen.emplace(address_text(endpoint), where);
    if (!fresh) {
      throw ConfigError(text(where, " is ", first->first, ", and so is ", first->second, "."),
                        "give every task an address of its own.");
    }
    if (job == config.task_type && index == config.task_id) own = static_cast<int>(members.size());
    members.push_back({text(job, '/', index), endpoint});
  }
  return own;
}

}  // namespace

Cluster to_cluster(const TfConfig& config) {
  refuse_other_roles(config);
  if (config.is_local()) {
    throw ConfigError(text(config.name, " names no cluster."),
                      "add \"cluster\": {\"worker\": [\"host:port\"]}.");
  }
  Cluster cluster;
  cluster.members.clear();
  cluster.origin = config.name;
  std::map<std::string, std::string> seen;
  const auto chief = append_job(cluster.members, config, "chief", seen);
  const auto worker = append_job(cluster.members, config, "worker", seen);
  const auto server = append_job(cluster.servers, config, "ps", seen);
  cluster.rank = chief ? *chief : worker.value_or(0);
  cluster.server = server.value_or(-1);
  return cluster;
}

Cluster evaluator_cluster(const TfConfig& config) {
  if (config.task_id != 0) {
    throw ConfigError(text(config.name, " names evaluator/", config.task_id,
                           ", but there is only one evaluator."),
                      "give it index 0, and start it once.");
  }
  Cluster cluster;
  cluster.members = {{"evaluator/0", std::nullopt}};
  cluster.origin = config.name;
  return cluster;
}

std::optional<std::string> agreed_model_dir(const TfConfig& config,
                                            const std::optional<std::string>& given) {
  if (given && given->empty()) {
    throw ConfigError("the model_dir of the program is empty.", "name a folder, or leave it out.");
  }
  if (given && config.model_dir && *given != *config.model_dir) {
    throw ConfigError(text(config.name, ".model_dir is \"", *config.model_dir,
                           "\", but the program was given \"", *given, "\"."),
                      "give one of them, or the same twice.");
  }
  return given ? given : config.model_dir;
}

}  // namespace troupe
