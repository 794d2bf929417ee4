// Clusters: TF_CONFIG, cluster files, and what launchers put into the environment.
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/cluster/tf_config.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::fuzz::cluster_target {
namespace {

enum Kind : unsigned char { tf_config, with_task, cluster_file, environment };
constexpr unsigned kKinds = environment + 1;

void check_members(const std::vector<Member>& members, std::set<std::string>& tasks,
                   std::set<std::string>& addresses) {
  for (const Member& member : members) {
    FUZZ_REQUIRE(tasks.insert(member.task).second);
    if (!member.address) continue;
    const std::string address = address_text(*member.address);
    FUZZ_REQUIRE(addresses.insert(address).second);
    const Endpoint read = parse_address(address, "fuzz");
    FUZZ_REQUIRE(read.host == member.address->host && read.port == member.address->port);
  }
}

/// What the header of Cluster promises.
void check(const Cluster& cluster) {
  FUZZ_REQUIRE(!cluster.members.empty() && cluster.rank >= 0 &&
               cluster.rank < cluster.world_size());
  FUZZ_REQUIRE(cluster.server >= -1 && cluster.server < static_cast<int>(cluster.servers.size()));
  FUZZ_REQUIRE(cluster.members.size() == 1 || !cluster.servers.empty() ||
               cluster.members[0].address);
  std::set<std::string> tasks;
  std::set<std::string> addresses;
  check_members(cluster.members, tasks, addresses);
  check_members(cluster.servers, tasks, addresses);
}

bool same(const std::vector<Member>& a, const std::vector<Member>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].task != b[i].task || address_text(*a[i].address) != address_text(*b[i].address)) {
      return false;
    }
  }
  return true;
}

/// The cluster as a TF_CONFIG of its own says the same.
void check_written(const Cluster& cluster) {
  if (cluster.is_evaluator()) return;  // it knows no other task
  nlohmann::json jobs;
  for (const auto* const members : {&cluster.members, &cluster.servers}) {
    for (const Member& member : *members) {
      jobs[member.task.substr(0, member.task.find('/'))].push_back(address_text(*member.address));
    }
  }
  if (cluster.evaluator == detail::Evaluator::expected) jobs["evaluator"] = {"evaluator:1"};
  const std::string& task = cluster.task();
  const auto cut = task.find('/');
  const nlohmann::json document = {
      {"cluster", jobs},
      {"task", {{"type", task.substr(0, cut)}, {"index", std::stoi(task.substr(cut + 1))}}}};
  const auto again = parse_tf_config(document.dump()).cluster;
  FUZZ_REQUIRE(again && same(again->members, cluster.members) &&
               same(again->servers, cluster.servers));
  FUZZ_REQUIRE(again->rank == cluster.rank && again->server == cluster.server &&
               again->evaluator == cluster.evaluator);
}

bool judge(const std::optional<Cluster>& cluster) {
  if (!cluster) return true;  // a document without one
  check(*cluster);
  check_written(*cluster);
  return true;
}

bool run_document(const std::string& document, const std::optional<std::string>& task) {
  TfConfig config;
  if (!accepts<ConfigError>([&] { config = parse_tf_config(document, task); })) return false;
  return judge(config.cluster);
}

bool run_file(std::string_view document) {
  const MemoryFile file(document);
  TfConfig config;
  const auto read = [&] { config = read_cluster_file(file.path(), "--cluster", "worker:0"); };
  if (!accepts<ConfigError>(read)) return false;
  FUZZ_REQUIRE(config.cluster);
  return judge(config.cluster);
}

/// A variable a line.
bool run_environment(const std::string& input) {
  Environment variables;
  for (const std::string& line : split(input, '\n')) {
    const auto equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  ResolvedCluster resolved;
  if (!accepts<ConfigError>([&] { resolved = resolve_cluster({}, variables); })) return false;
  check(resolved.cluster);
  return true;
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

}  // namespace

std::vector<std::string> seeds() {
  // In one line, for the environment.
  const std::string jobs =
      R"({"chief": ["a:1"], "worker": ["b:2", "[fd00::1]:3"], "ps": ["p:4"], "evaluator": ["e"]})";
  return {
      seed(tf_config, text(R"({"cluster": )", jobs, R"(, "task": {"type": "ps", "index": "0"}})")),
      seed(tf_config, R"({"sparseCluster": {"worker": {"0": "a:1", "1": "b"}}, "rpc_layer": "grpc",
                          "task": {"type": "worker", "index": 1}, "model_dir": "/m"})"),
      seed(tf_config, R"({"cluster": {"worker": ["a:1"], "evaluator": ["e:1"]}, "service": {},
                          "task": {"type": "evaluator", "index": 0}})"),
      seed(tf_config, "{}"),
      seed(with_task, std::string("\x8\0worker:1", 10) + text(R"({"cluster": )", jobs, "}")),
      seed(cluster_file, jobs),
      seed(environment, "TF_CONFIG=" + text(R"({"cluster": )", jobs,
                                            R"(, "task": {"type": "chief", "index": 0}})")),
      seed(environment,
           "RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=a.example\nMASTER_PORT=29500\nLOCAL_RANK=0\n"
           "LOCAL_WORLD_SIZE=1\nTORCHELASTIC_RESTART_COUNT=2"),
      seed(environment,
           "SLURM_PROCID=1\nSLURM_NTASKS=4\nSLURM_STEP_NUM_TASKS=4\nSLURM_NODEID=0\n"
           "SLURM_STEP_NODELIST=n[08-09]\nSLURM_STEP_TASKS_PER_NODE=2(x2)\nSLURM_JOB_ID=7\n"
           "SLURM_STEP_ID=0\nSLURM_JOB_NODELIST=n[08-09]"),
      seed(environment, "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=1\nPMI_RANK=0\nPMI_SIZE=1")};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  Values values(input);
  switch (kind) {
    case tf_config:
      return run_document(std::string(input), std::nullopt);
    case with_task: {
      const std::string task = values.text();
      return run_document(std::string(values.rest()), task);
    }
    case cluster_file:
      return run_file(input);
    default:
      return run_environment(std::string(input));
  }
}

const Registration registered({"cluster", seeds, run});

}  // namespace troupe::fuzz::cluster_target
