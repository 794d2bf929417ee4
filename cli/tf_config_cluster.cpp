// From TF_CONFIG's roles to the ranks of a synchronous group.
#include <map>

#include "cli/address.h"
#include "cli/tf_config.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

constexpr const char* kOnlyTrainers =
    "train with jobs chief and worker only; ps needs a strategy that this version does not have.";

void refuse_other_roles(const TfConfig& config) {
  if (config.is_evaluator() || config.task_type == "ps") {
    throw ConfigError(text(config.name, ".task.type is \"", config.task_type,
                           "\", but this strategy trains with chief and workers only."),
                      kOnlyTrainers);
  }
  for (const auto& [job, tasks] : config.cluster) {
    if (job == "chief" || job == "worker" || job == "evaluator") continue;
    throw ConfigError(text(config.cluster_path, '.', job,
                           " names tasks, but this strategy trains with chief and workers only."),
                      kOnlyTrainers);
  }
}

/// Appends the tasks of one job, by index. `seen` holds where each address was named.
void append_job(Cluster& cluster, const TfConfig& config, const std::string& job,
                std::map<std::string, std::string>& seen) {
  const auto found = config.cluster.find(job);
  if (found == config.cluster.end()) return;
  std::int64_t expected = 0;
  for (const auto& [index, address] : found->second.addresses) {
    const std::string place = text(config.cluster_path, '.', job);
    const std::string where = text(place, '[', index, ']');
    if (index != expected) {
      throw ConfigError(text(place, '[', expected, "] is missing."),
                        "name every worker: this strategy connects all of them.");
    }
    ++expected;
    const Endpoint endpoint = parse_address(address, where);
    const auto [first, fresh] = seen.emplace(address_text(endpoint), where);
    if (!fresh) {
      throw ConfigError(text(where, " is ", first->first, ", and so is ", first->second, "."),
                        "give every task an address of its own.");
    }
    if (job == config.task_type && index == config.task_id) {
      cluster.rank = static_cast<int>(cluster.members.size());
    }
    cluster.members.push_back({text(job, '/', index), endpoint});
  }
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
  append_job(cluster, config, "chief", seen);
  append_job(cluster, config, "worker", seen);
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
