#include "troupe/cli/cluster/tf_config.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/cluster/json_document.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

using nlohmann::json;

/// The addresses of one job, by task index: ["a:1", "b:2"] or {"0": "a:1", "1": "b:2"}.
using Job = std::map<std::int64_t, std::string>;

/// A document's cluster and task, before they are judged.
struct TfDocument {
  std::string name;
  std::string cluster_path;
  bool is_sparse = false;  // the jobs stand under "sparseCluster"
  std::map<std::string, Job> jobs;
  const nlohmann::json* stated_index = nullptr;
  std::string task_type = "worker";
  bool has_type = false;  // the document says it
  std::int64_t task_id = 0;

  [[nodiscard]] bool is_evaluator() const { return task_type == "evaluator"; }
};

/// Where the jobs stand: under "cluster" or "sparseCluster", or at the top.
enum class Layout { whole, bare_cluster };

/// Throws: ConfigError "`where` `what`.", with the fix.
[[noreturn]] void refuse_at(const std::string& where, const std::string& what,
                            const std::string& fix) {
  throw ConfigError(text(where, ' ', what, "."), fix);
}

/// Null where a member is missing, or is JSON's null.
const json* json_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// A member that is a string; unset where there is none, or null.
std::optional<std::string> string_member(const json& object, const char* key,
                                         const std::string& name) {
  const json* const found = json_member(object, key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) {
    refuse_at(text(name, '.', key), text("is ", json_kind(*found)), "write a string, in quotes.");
  }
  return found->get<std::string>();
}

std::string address_of(const json& value, const std::string& where) {
  if (!value.is_string()) {
    refuse_at(where, text("is ", json_kind(value)), "write \"host:port\", in quotes.");
  }
  return value.get<std::string>();
}

Job parse_list(const json& list, const std::string& where) {
  Job job;
  if (list.size() > static_cast<std::size_t>(kMaxWorkers)) {
    refuse_at(where, text("has more than ", kMaxWorkers, " addresses"), "name fewer.");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    job[static_cast<std::int64_t>(i)] = address_of(list[i], text(where, '[', i, ']'));
  }
  return job;
}

Job parse_sparse(const json& object, const std::string& where) {
  Job job;
  for (const auto& [key, value] : object.items()) {
    const auto index = parse_integer<std::int64_t>(key);
    if (!index || *index < 0 || *index >= kMaxWorkers) {
      refuse_at(text(where, ".\"", key, '"'), "is not an index",
                "use keys \"0\", \"1\" and so on, in quotes.");
    }
    if (!job.emplace(*index, address_of(value, text(where, '[', *index, ']'))).second) {
      refuse_at(text(where, '[', *index, ']'), "appears twice", "keep one of the two.");
    }
  }
  return job;
}

Job parse_job(const json& value, const std::string& where) {
  if (value.is_array()) return parse_list(value, where);
  if (value.is_object()) return parse_sparse(value, where);
  refuse_at(where, text("is ", json_kind(value)), "write a list of addresses: [\"host:port\"].");
}

/// A job without tasks: Kubeflow writes one for a part of a TFJob that has no replicas.
bool is_absent(const json& job) { return job.is_null() || (job.is_structured() && job.empty()); }

/// Jobs at `document.cluster_path`.
void read_jobs(TfDocument& document, const json& cluster) {
  if (!cluster.is_object()) {
    refuse_at(document.cluster_path, text("is ", json_kind(cluster)),
              "write {\"worker\": [\"host:port\"]}.");
  }
  for (const auto& [job, value] : cluster.items()) {
    if (is_absent(value)) continue;
    document.jobs[job] = parse_job(value, document.cluster_path + "." + job);
  }
}

void read_cluster(TfDocument& document, const json& given) {
  const json* const dense = json_member(given, "cluster");
  const json* const sparse = json_member(given, "sparseCluster");
  if (dense != nullptr && sparse != nullptr) {
    refuse_at(document.name + ".sparseCluster", "stands beside a \"cluster\"",
              "keep one of the two.");
  }
  if (dense == nullptr && sparse == nullptr) return;
  document.is_sparse = sparse != nullptr;
  document.cluster_path = document.name + (sparse != nullptr ? ".sparseCluster" : ".cluster");
  read_jobs(document, sparse != nullptr ? *sparse : *dense);
}

void read_task(TfDocument& document, const json& given) {
  const json* const found = json_member(given, "task");
  if (found == nullptr) return;
  if (!found->is_object()) {
    refuse_at(document.name + ".task", text("is ", json_kind(*found)),
              "write {\"type\": \"worker\", \"index\": 0}.");
  }
  const auto type = string_member(*found, "type", document.name + ".task").value_or("");
  document.has_type = !type.empty();
  if (document.has_type) document.task_type = type;
  document.stated_index = json_member(*found, "index");
}

/// Reads an object; `name` is what messages call it. The result points into `given`.
TfDocument read_tf_document(const json& given, const std::string& name, Layout layout) {
  TfDocument document;
  document.name = name;
  document.cluster_path = layout == Layout::bare_cluster ? name : name + ".cluster";
  if (layout == Layout::bare_cluster) {
    json jobs = given;
    jobs.erase("task");
    read_jobs(document, jobs);
  } else {
    read_cluster(document, given);
  }
  read_task(document, given);
  return document;
}

/// JSON's numbers convert silently (1.9 to 1, 2^32 + 1 to 1): only whole numbers in range pass.
std::int64_t parse_index(const json& index, const std::string& where) {
  std::optional<std::int64_t> value;
  if (index.is_number_unsigned()) {
    const auto number = index.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(INT64_MAX)) value = static_cast<std::int64_t>(number);
  } else if (index.is_number_integer()) {
    value = index.get<std::int64_t>();
  } else if (index.is_string()) {
    value = parse_integer<std::int64_t>(index.get<std::string>());
  }
  if (!value) {
    refuse_at(where, text("is ", index.dump().substr(0, 40), ", not a whole number"),
              "write the number of this task, from 0.");
  }
  if (*value < 0) {
    refuse_at(where, text("is ", *value, ": the index must be non-negative"),
              "count tasks from 0.");
  }
  return *value;
}

std::string job_list(const TfDocument& document) {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : document.jobs) names.push_back(job);
  return join(names);
}

/// Estimator's rule refuses an evaluator without a cluster; it needs none, so we do not insist.
void check_local(TfDocument& document) {
  if (document.task_type != "worker" && !document.is_evaluator()) {
    refuse_at(document.name + ".task.type",
              text("is \"", document.task_type,
                   "\", but without a cluster the task type must be worker (WORKER)"),
              "add the cluster, or remove the task to run alone.");
  }
  if (document.stated_index != nullptr) {
    document.task_id = parse_index(*document.stated_index, document.name + ".task.index");
  }
  if (document.task_id != 0 && !document.is_evaluator()) {
    refuse_at(document.name + ".task.index",
              text("is ", document.task_id, ", but without a cluster the index must be 0"),
              "add the cluster, or remove the task to run alone.");
  }
}

void refuse_master(const TfDocument& document) {
  const std::string fix = "rename \"master\" to \"chief\", in cluster and task.";
  if (document.jobs.count("master") != 0) {
    const bool both = document.jobs.count("chief") != 0;
    refuse_at(document.cluster_path + ".master",
              both ? "stands beside a \"chief\", which is its newer name"
                   : "is the old name of \"chief\"",
              both ? "remove the job \"master\"." : fix);
  }
  if (document.task_type == "master") {
    refuse_at(document.name + ".task.type", "is \"master\", the old name of \"chief\"", fix);
  }
}

/// With enableDynamicWorker Kubeflow tells a worker its own address and the servers', a server its
/// own, all others nothing: nobody learns who leads, nor how many train.
void refuse_partial(const TfDocument& document) {
  const auto workers = document.jobs.find("worker");
  const std::size_t named = workers == document.jobs.end() ? 0 : workers->second.size();
  const bool trains = document.has_type && !document.is_evaluator();
  if (!document.is_sparse || !trains || named > 1 || document.jobs.count("chief") != 0) return;
  refuse_at(document.cluster_path,
            "names neither a chief nor other workers, as in a TFJob with enableDynamicWorker",
            "remove enableDynamicWorker from the TFJob: a group has a fixed number of workers, and "
            "each must know the chief.");
}

/// The jobs are known, and chief and evaluator are one process each. Synchronous training needs no
/// chief by name.
void check_jobs(const TfDocument& document) {
  const std::string& where = document.cluster_path;
  if (document.jobs.count("ps") != 0 && document.jobs.count("chief") == 0) {
    refuse_at(where, "has parameter servers and must have one chief",
              "add \"chief\": [\"host:port\"].");
  }
  for (const auto& [job, tasks] : document.jobs) {
    const bool single = job == "chief" || job == "evaluator";
    if (!single && job != "worker" && job != "ps") {
      refuse_at(where + "." + job, "is not a known job", "use chief, worker, ps and evaluator.");
    }
    if (single && tasks.size() > 1) {
      refuse_at(where + "." + job,
                text("has ", tasks.size(), " addresses: only one ", job, " is allowed"),
                job == "chief" ? "keep one; list the others as workers." : "keep one.");
    }
  }
}

void check_task(TfDocument& document) {
  const std::string where = document.name + ".task";
  if (!document.has_type) {
    refuse_at(where + ".type", "is missing: the task type must be set beside a cluster",
              text("add \"task\": {\"type\": ..., \"index\": ...} with one of ", job_list(document),
                   ", or remove the cluster to run alone."));
  }
  if (document.stated_index == nullptr) {
    refuse_at(where + ".index", "is missing: the task index must be set beside a cluster",
              "add the number of this task, from 0.");
  }
  document.task_id = parse_index(*document.stated_index, where + ".index");
  if (document.is_evaluator()) return;
  const auto job = document.jobs.find(document.task_type);
  if (job == document.jobs.end()) {
    const bool local = document.task_type == "local";
    refuse_at(where + ".type",
              text("is \"", document.task_type, "\", not a valid task_type of this cluster"),
              local ? "leave cluster and task out to run locally."
                    : text("use one of ", job_list(document), "."));
  }
  if (job->second.count(document.task_id) == 0) {
    refuse_at(where + ".index",
              text("is ", document.task_id, ", not a valid task_id: ", document.cluster_path, '.',
                   document.task_type, " has ", job->second.size(), " address(es)"),
              "count tasks from 0, or add this one's address.");
  }
}

/// Appends the tasks of one job, by index. `seen` holds where each address was named.
/// Returns this process's place in `members`; unset where it is none of them.
std::optional<int> append_job(std::vector<Member>& members, const TfDocument& document,
                              const std::string& job, std::map<std::string, std::string>& seen) {
  const auto found = document.jobs.find(job);
  if (found == document.jobs.end()) return std::nullopt;
  std::optional<int> own;
  std::int64_t expected = 0;
  for (const auto& [index, address] : found->second) {
    const std::string place = text(document.cluster_path, '.', job);
    const std::string where = text(place, '[', index, ']');
    if (index != expected) {
      refuse_at(text(place, '[', expected, ']'), "is missing",
                "name every task: training connects all of them.");
    }
    ++expected;
    const Endpoint endpoint = parse_address(address, where);
    const auto [first, fresh] = seen.emplace(address_text(endpoint), where);
    if (!fresh) {
      refuse_at(where, text("is ", first->first, ", and so is ", first->second),
                "give every task an address of its own.");
    }
    if (job == document.task_type && index == document.task_id) {
      own = static_cast<int>(members.size());
    }
    members.push_back({text(job, '/', index), endpoint});
  }
  return own;
}

Cluster group_of(const TfDocument& document) {
  Cluster cluster;
  cluster.members.clear();
  cluster.origin = document.name;
  std::map<std::string, std::string> seen;
  const auto chief = append_job(cluster.members, document, "chief", seen);
  const auto worker = append_job(cluster.members, document, "worker", seen);
  const auto server = append_job(cluster.servers, document, "ps", seen);
  cluster.rank = chief ? *chief : worker.value_or(0);
  cluster.server = server.value_or(-1);
  // Also with one address: an evaluator need not be listed.
  cluster.evaluator = document.jobs.count("evaluator") != 0 ? detail::Evaluator::expected
                                                            : detail::Evaluator::possible;
  return cluster;
}

/// An evaluator reads checkpoints and talks to nobody, whatever the cluster.
Cluster evaluators_place(const TfDocument& document) {
  if (document.task_id != 0) {
    throw ConfigError(text(document.name, " names evaluator/", document.task_id,
                           ", but there is only one evaluator."),
                      "give it index 0, and start it once.");
  }
  Cluster cluster;
  cluster.members = {{"evaluator/0", std::nullopt}};
  cluster.origin = document.name;
  cluster.evaluator = detail::Evaluator::self;
  return cluster;
}

/// The model_dir; what else Estimator knows must have its type, and is not needed here.
std::optional<std::string> read_others(const json& given, const std::string& name) {
  for (const char* key : {"session_master", "eval_session_master", "environment", "rpc_layer"}) {
    (void)string_member(given, key, name);
  }
  auto model_dir = string_member(given, "model_dir", name);
  if (model_dir == "") {
    refuse_at(name + ".model_dir", "is empty", "name a folder, or remove the key.");
  }
  const json* const service = json_member(given, "service");
  if (service != nullptr && !service->is_object()) {
    refuse_at(name + ".service", text("is ", json_kind(*service)), "write an object: {...}.");
  }
  return model_dir;
}

TfConfig interpret(const json& given, const std::string& name, Layout layout = Layout::whole) {
  if (!given.is_object()) {
    throw ConfigError(text(name, " is ", json_kind(given), ", not a JSON object."),
                      "write {\"cluster\": {...}, \"task\": {...}}, or remove it.");
  }
  TfDocument document = read_tf_document(given, name, layout);
  refuse_master(document);
  refuse_partial(document);
  const bool local = document.jobs.empty();
  if (local) {
    check_local(document);
  } else {
    check_jobs(document);
    check_task(document);
  }
  TfConfig config{name, document.cluster_path, std::nullopt, read_others(given, name)};
  if (document.is_evaluator()) {
    config.cluster = evaluators_place(document);
  } else if (!local) {
    config.cluster = group_of(document);
  }
  return config;
}

/// "worker:1" or "worker/1" as the task object of a document. There is one evaluator, so its index
/// may be left out.
json task_object(const std::string& task, const std::string& flag) {
  if (task == "evaluator") return json{{"type", task}, {"index", 0}};
  const auto cut = task.find_first_of(":/");
  const auto index =
      cut == std::string::npos ? std::nullopt : parse_integer<std::int64_t>(task.substr(cut + 1));
  if (cut == std::string::npos || cut == 0 || !index || *index < 0) {
    throw ConfigError(text(flag, " is \"", task, "\"."),
                      "write job and index, for example worker:1 or chief:0.");
  }
  return json{{"type", task.substr(0, cut)}, {"index", *index}};
}

}  // namespace

TfConfig parse_tf_config(const std::string& document, const std::optional<std::string>& task,
                         const std::string& name) {
  json parsed = parse_json(document, name);
  if (task && parsed.is_object()) parsed["task"] = task_object(*task, "--task");
  return interpret(parsed, name);
}

TfConfig read_cluster_file(const std::string& path, const std::string& flag,
                           const std::optional<std::string>& task) {
  json document = parse_json_file(path, flag);
  if (!document.is_object()) {
    throw ConfigError(text(path, " is ", json_kind(document), ", not a JSON object."),
                      "write {\"cluster\": {\"worker\": [\"host:port\"]}}.");
  }
  const bool whole = document.contains("cluster") || document.contains("sparseCluster") ||
                     document.contains("task");
  if (task) document["task"] = task_object(*task, "--task");
  if (!document.contains("task")) {
    throw ConfigError(text(path, " does not say which of its tasks this worker is."),
                      "add --task worker:1.");
  }
  TfConfig config = interpret(document, path, whole ? Layout::whole : Layout::bare_cluster);
  if (!config.cluster) {
    refuse_at(config.cluster_path, "names no worker", "add \"worker\": [\"host:port\"].");
  }
  return config;
}

}  // namespace troupe
