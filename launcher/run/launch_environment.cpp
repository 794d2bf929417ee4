#include "troupe/launcher/run/launch_environment.h"

#include <utility>

#include "troupe/cli/cluster/sealed_secret.h"
#include "troupe/cli/cluster/secret_source.h"
#include "troupe/core/machine.h"
#include "troupe/core/text.h"
#include "troupe/report/progress_sinks.h"

namespace troupe {
namespace {

/// Whether other launchers, or this one, tell a process its place by a variable of this name.
bool names_a_cluster(const std::string& name) {
  for (const char* exact : {"TF_CONFIG",         "RANK",
                            "WORLD_SIZE",        "LOCAL_RANK",
                            "LOCAL_WORLD_SIZE",  "GROUP_RANK",
                            "GROUP_WORLD_SIZE",  "ROLE_RANK",
                            "ROLE_WORLD_SIZE",   "TROUPE_RANK",
                            "TROUPE_WORLD_SIZE", "TROUPE_CHIEF_ADDRESS",
                            "TROUPE_GENERATION", "TROUPE_LISTEN_FD",
                            "TROUPE_CLUSTER",    "TROUPE_TASK",
                            "TROUPE_EVALUATOR",  "TROUPE_SERVERS",
                            "TROUPE_ROUNDS_FD",  "TROUPE_JOINS",
                            "TROUPE_LOSSES_FD"})
    if (name == exact) return true;
  for (const char* prefix :
       {"MASTER_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "PALS_", "PET_", "TORCHELASTIC_",
        "MV2_COMM_WORLD_", "FLUX_", "JSM_NAMESPACE_", "HOROVOD_"})
    if (name.rfind(prefix, 0) == 0) return true;
  return false;
}

}  // namespace

LaunchEnvironment launch_environment(const Environment& own, const LaunchPlan& plan) {
  LaunchEnvironment result;
  for (const auto& [name, value] : own) {
    // Replaced: what is handed down is this launcher's secret, or what it read in that file.
    if (name == kSecretDescriptorVariable || name == kSecretFileVariable) continue;
    if (name == kProgressDescriptorVariable) continue;  // of a launcher around this one
    if (names_a_cluster(name))
      result.removed.push_back(name);
    else
      result.variables[name] = value;
  }
  Environment& variables = result.variables;
  const int servers = static_cast<int>(plan.server_ports.size());
  const int share = compute_threads(plan.usable_cores, plan.workers_here, servers);
  if (plan.threads > 0)
    variables["OMP_NUM_THREADS"] = std::to_string(plan.threads);
  else
    variables.emplace("OMP_NUM_THREADS", std::to_string(share));
  // LibTorch's own threads call OpenBLAS from inside; a second pool below them fights for the same
  // cores. Idle OpenMP threads sleep instead of spinning, for the other workers' sake.
  variables.emplace("OPENBLAS_NUM_THREADS", "1");
  variables.emplace("OMP_WAIT_POLICY", "passive");
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY"})
    result.threads.push_back(std::string(name) + "=" + variables[name]);

  variables["TROUPE_WORLD_SIZE"] = std::to_string(plan.told.world_size);
  if (servers == 0)
    variables["TROUPE_CHIEF_ADDRESS"] = text(plan.told.chief_host, ":", plan.told.chief_port);
  else
    variables["TROUPE_SERVERS"] =
        join(plan.server_ports, ",", [](std::uint16_t port) { return text("127.0.0.1:", port); });
  variables["TROUPE_EVALUATOR"] = plan.evaluator ? "1" : "0";
  variables["TROUPE_GENERATION"] = std::to_string(plan.told.generation);
  if (plan.secret_fd >= 0) variables[kSecretDescriptorVariable] = std::to_string(plan.secret_fd);
  return result;
}

Environment environment_of(const ProcessPlace& place, Environment shared) {
  switch (place.role) {
    case LaunchRole::worker:
      shared["TROUPE_RANK"] = std::to_string(place.index);
      break;
    case LaunchRole::server:
      shared["TROUPE_TASK"] = text("ps:", place.index);
      shared["OMP_NUM_THREADS"] = "1";
      break;
    case LaunchRole::evaluator:
      for (const char* name : {"TROUPE_WORLD_SIZE", "TROUPE_CHIEF_ADDRESS", "TROUPE_SERVERS",
                               "TROUPE_EVALUATOR", kSecretDescriptorVariable})
        shared.erase(name);
      shared["TROUPE_TASK"] = "evaluator:0";
  }
  if (place.joins) shared["TROUPE_JOINS"] = "1";
  for (const auto& [name, fd] : {std::pair("TROUPE_LISTEN_FD", place.listen_fd),
                                 {"TROUPE_ROUNDS_FD", place.rounds_fd},
                                 {"TROUPE_LOSSES_FD", place.losses_fd},
                                 {kProgressDescriptorVariable, place.progress_fd}})
    if (fd >= 0) shared[name] = std::to_string(fd);
  return shared;
}

}  // namespace troupe
