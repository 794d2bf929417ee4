#include "cluster/tf_config.h"

#include <algorithm>

#include "cluster/json_document.h"
#include "cluster/numbers.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTasks = 4096;  // of one job

[[noreturn]] void refuse(const std::string& where, const std::string& what,
                         const std::string& fix) {
  throw ConfigError(text(where, ' ', what, "."), fix);
}

/// A member that is a string; unset where it is missing or null.
std::optional<std::string> string_member(const json& object, const char* key,
                                         const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) {
    refuse(text(name, '.', key), text("is ", json_kind(*found)), "write a string, in quotes.");
  }
  return found->get<std::string>();
}

std::string address_of(const json& value, const std::string& where) {
  if (!value.is_string()) {
    refuse(where, text("is ", json_kind(value)), "write \"host:port\", in quotes.");
  }
  return value.get<std::string>();
}

TfJob parse_list(const json& list, const std::string& where) {
  TfJob job;
  if (list.empty()) refuse(where, "is an empty list", "name an address, or remove the job.");
  if (list.size() > static_cast<std::size_t>(kMaxTasks)) {
    refuse(where, text("has more than ", kMaxTasks, " addresses"), "name fewer.");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    job.addresses[static_cast<std::int64_t>(i)] = address_of(list[i], text(where, '[', i, ']'));
  }
  return job;
}

TfJob parse_sparse(const json& object, const std::string& where) {
  TfJob job;
  job.form = TfJob::Form::sparse;
  if (object.empty()) refuse(where, "is an empty object", "name an address, or remove the job.");
  for (const auto& [key, value] : object.items()) {
    const auto index = parse_integer<std::int64_t>(key);
    if (!index || *index < 0 || *index >= kMaxTasks) {
      refuse(text(where, ".\"", key, '"'), "is not an index",
             "use keys \"0\", \"1\" and so on, in quotes.");
    }
    if (!job.addresses.emplace(*index, address_of(value, text(where, '[', *index, ']'))).second) {
      refuse(text(where, '[', *index, ']'), "appears twice", "keep one of the two.");
    }
  }
  return job;
}

TfJob parse_job(const json& value, const std::string& where) {
  if (value.is_array()) return parse_list(value, where);
  if (value.is_object()) return parse_sparse(value, where);
  refuse(where, text("is ", json_kind(value)), "write a list of addresses: [\"host:port\"].");
}

/// Jobs at `config.cluster_path`.
void read_jobs(TfConfig& config, const json& cluster) {
  if (!cluster.is_object()) {
    refuse(config.cluster_path, text("is ", json_kind(cluster)),
           "write {\"worker\": [\"host:port\"]}.");
  }
  for (const auto& [job, value] : cluster.items()) {
    config.cluster[job] = parse_job(value, config.cluster_path + "." + job);
  }
}

void read_cluster(TfConfig& config, const json& document) {
  const bool dense = document.contains("cluster") && !document["cluster"].is_null();
  const bool sparse = document.contains("sparseCluster") && !document["sparseCluster"].is_null();
  if (dense && sparse) {
    refuse(config.name + ".sparseCluster", "stands beside a \"cluster\"", "keep one of the two.");
  }
  if (!dense && !sparse) return;
  const char* const key = sparse ? "sparseCluster" : "cluster";
  config.cluster_path = config.name + "." + key;
  read_jobs(config, document[key]);
}

/// The task as the document states it, before it is judged.
struct StatedTask {
  std::optional<std::string> type;
  const json* index = nullptr;
};

StatedTask read_task(const json& document, const std::string& name) {
  StatedTask task;
  const auto found = document.find("task");
  if (found == document.end() || found->is_null()) return task;
  if (!found->is_object()) {
    refuse(name + ".task", text("is ", json_kind(*found)),
           "write {\"type\": \"worker\", \"index\": 0}.");
  }
  task.type = string_member(*found, "type", name + ".task");
  if (task.type && task.type->empty()) task.type.reset();
  const auto index = found->find("index");
  if (index != found->end() && !index->is_null()) task.index = &*index;
  return task;
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
    refuse(where, text("is ", index.dump().substr(0, 40), ", not a whole number"),
           "write the number of this task, from 0.");
  }
  if (*value < 0) {
    refuse(where, text("is ", *value, ": the index must be non-negative"), "count tasks from 0.");
  }
  return *value;
}

std::string job_list(const TfConfig& config) {
  std::string names;
  for (const auto& [job, tasks] : config.cluster) names += (names.empty() ? "" : ", ") + job;
  return names;
}

/// Estimator's rule refuses an evaluator without a cluster; it needs none, so we do not insist.
void check_local(TfConfig& config, const StatedTask& stated, ChiefRule rule) {
  config.task_type = stated.type.value_or("worker");
  const bool evaluates = config.is_evaluator() && rule == ChiefRule::optional;
  if (config.task_type != "worker" && !evaluates) {
    refuse(config.name + ".task.type",
           text("is \"", config.task_type,
                "\", but without a cluster the task type must be worker (WORKER)"),
           "add the cluster, or remove the task to run alone.");
  }
  if (stated.index != nullptr) {
    config.task_id = parse_index(*stated.index, config.name + ".task.index");
  }
  if (config.task_id != 0 && !evaluates) {
    refuse(config.name + ".task.index",
           text("is ", config.task_id, ", but without a cluster the index must be 0"),
           "add the cluster, or remove the task to run alone.");
  }
}

void refuse_master(const TfConfig& config, const StatedTask& stated) {
  const std::string fix = "rename \"master\" to \"chief\", in cluster and task.";
  if (config.cluster.count("master") != 0) {
    refuse(config.cluster_path + ".master",
           config.cluster.count("chief") != 0 ? "stands beside a \"chief\", which is its newer name"
                                              : "is the old name of \"chief\"",
           config.cluster.count("chief") != 0 ? "remove the job \"master\"." : fix);
  }
  if (stated.type == "master") {
    refuse(config.name + ".task.type", "is \"master\", the old name of \"chief\"", fix);
  }
}

void check_chief(const TfConfig& config, ChiefRule rule) {
  const std::string& where = config.cluster_path;
  const auto chief = config.cluster.find("chief");
  const bool serves = config.cluster.count("ps") != 0;  // which is not synchronous training
  if (chief == config.cluster.end() && (serves || rule == ChiefRule::required)) {
    refuse(where, serves ? "has parameter servers and must have one chief" : "must have one chief",
           "add \"chief\": [\"host:port\"].");
  }
  if (chief != config.cluster.end() && chief->second.addresses.size() > 1) {
    refuse(where + ".chief",
           text("has ", chief->second.addresses.size(), " addresses: only one chief is allowed"),
           "keep one; list the others as workers.");
  }
  if (rule == ChiefRule::required) return;
  for (const auto& [job, tasks] : config.cluster) {
    if (job != "chief" && job != "worker" && job != "ps" && job != "evaluator") {
      refuse(where + "." + job, "is not a known job", "use chief, worker, ps and evaluator.");
    }
    if (job == "evaluator" && tasks.addresses.size() > 1) {
      refuse(where + ".evaluator",
             text("has ", tasks.addresses.size(), " addresses: only one evaluator is allowed"),
             "keep one.");
    }
  }
}

void check_task(TfConfig& config, const StatedTask& stated) {
  const std::string where = config.name + ".task";
  if (!stated.type) {
    refuse(where + ".type", "is missing: the task type must be set beside a cluster",
           text("add \"task\": {\"type\": ..., \"index\": ...} with one of ", job_list(config),
                ", or remove the cluster to run alone."));
  }
  config.task_type = *stated.type;
  if (stated.index == nullptr) {
    refuse(where + ".index", "is missing: the task index must be set beside a cluster",
           "add the number of this task, from 0.");
  }
  config.task_id = parse_index(*stated.index, where + ".index");
  if (config.is_evaluator()) return;
  const auto job = config.cluster.find(config.task_type);
  if (job == config.cluster.end()) {
    const bool local = config.task_type == "local";
    refuse(where + ".type",
           text("is \"", config.task_type, "\", not a valid task_type of this cluster"),
           local ? "leave cluster and task out to run locally."
                 : text("use one of ", job_list(config), "."));
  }
  if (job->second.addresses.count(config.task_id) == 0) {
    refuse(where + ".index",
           text("is ", config.task_id, ", not a valid task_id: ", config.cluster_path, '.',
                config.task_type, " has ", job->second.addresses.size(), " address(es)"),
           "count tasks from 0, or add this one's address.");
  }
}

std::int64_t count_of(const TfConfig& config, const char* job) {
  const auto found = config.cluster.find(job);
  return found == config.cluster.end() ? 0
                                       : static_cast<std::int64_t>(found->second.addresses.size());
}

/// Place of a job in the order of global ids: chief, the others by name, ps last.
int global_rank(const std::string& job) { return job == "chief" ? 0 : job == "ps" ? 2 : 1; }

std::int64_t global_id(const TfConfig& config) {
  std::int64_t before = 0;
  for (const auto& [job, tasks] : config.cluster) {
    if (job == "evaluator" || job == config.task_type) continue;
    const int mine = global_rank(config.task_type);
    const int its = global_rank(job);
    if (its < mine || (its == mine && job < config.task_type)) {
      before += static_cast<std::int64_t>(tasks.addresses.size());
    }
  }
  const auto& own = config.cluster.at(config.task_type).addresses;
  return before + std::distance(own.begin(), own.find(config.task_id));
}

void derive_local(TfConfig& config) {
  config.master = config.session_master.value_or("");
  config.evaluation_master = config.eval_session_master.value_or("");
}

/// To itself an evaluator has no cluster: it reads checkpoints and talks to nobody.
void derive_evaluator(TfConfig& config) {
  config.cluster.clear();
  config.is_chief = false;
  config.is_alone = false;
  config.num_worker_replicas = 0;
  config.evaluation_master = config.eval_session_master.value_or("");
  config.global_id_in_cluster.reset();
}

void derive_member(TfConfig& config) {
  config.is_alone = false;  // also with one address: an evaluator need not be listed
  config.evaluator_expected = config.cluster.count("evaluator") != 0;
  const bool has_chief = config.cluster.count("chief") != 0;
  config.is_chief =
      has_chief ? config.task_type == "chief" : config.task_type == "worker" && config.task_id == 0;
  config.num_worker_replicas = count_of(config, "chief") + count_of(config, "worker");
  config.num_ps_replicas = count_of(config, "ps");
  config.global_id_in_cluster = global_id(config);
  std::size_t tasks = 0;
  for (const auto& [job, each] : config.cluster) {
    if (job != "evaluator") tasks += each.addresses.size();
  }
  const std::string& own = config.cluster.at(config.task_type).addresses.at(config.task_id);
  config.master = config.session_master.value_or(tasks == 1 ? "" : "grpc://" + own);
  if (config.evaluator_expected) {
    config.warnings.push_back(
        text(config.cluster_path,
             ".evaluator does not count as a worker: an evaluator takes no part in training"));
  }
}

void read_texts(TfConfig& config, const json& document) {
  config.session_master = string_member(document, "session_master", config.name);
  config.eval_session_master = string_member(document, "eval_session_master", config.name);
  config.environment = string_member(document, "environment", config.name);
  config.rpc_layer = string_member(document, "rpc_layer", config.name);
  config.model_dir = string_member(document, "model_dir", config.name);
  if (config.model_dir == "") {
    refuse(config.name + ".model_dir", "is empty", "name a folder, or remove the key.");
  }
  const auto service = document.find("service");
  if (service == document.end() || service->is_null()) return;
  if (!service->is_object()) {
    refuse(config.name + ".service", text("is ", json_kind(*service)), "write an object: {...}.");
  }
  config.service = service->dump();
}

enum class Layout { whole, bare_cluster };  // the jobs under "cluster", or at the top

TfConfig interpret(const json& document, ChiefRule rule, const std::string& name,
                   Layout layout = Layout::whole) {
  TfConfig config;
  config.name = name;
  config.cluster_path = name + ".cluster";
  if (!document.is_object()) {
    throw ConfigError(text(name, " is ", json_kind(document), ", not a JSON object."),
                      "write {\"cluster\": {...}, \"task\": {...}}, or remove it.");
  }
  if (layout == Layout::bare_cluster) {
    config.cluster_path = name;
    json jobs = document;
    jobs.erase("task");
    read_jobs(config, jobs);
  } else {
    read_cluster(config, document);
  }
  const StatedTask stated = read_task(document, name);
  refuse_master(config, stated);
  if (config.is_local()) {
    check_local(config, stated, rule);
  } else {
    check_chief(config, rule);
    check_task(config, stated);
  }
  read_texts(config, document);
  if (config.is_evaluator()) {
    derive_evaluator(config);
  } else if (config.is_local()) {
    derive_local(config);
  } else {
    derive_member(config);
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

TfConfig parse_tf_config(const std::string& document, ChiefRule rule, const std::string& name) {
  return interpret(parse_json(document, name), rule, name);
}

TfConfig parse_tf_config_as(const std::string& document, const std::string& task, ChiefRule rule,
                            const std::string& name) {
  json parsed = parse_json(document, name);
  if (parsed.is_object()) parsed["task"] = task_object(task, "--task");
  return interpret(parsed, rule, name);
}

TfConfig read_cluster_file(const std::string& path, const std::string& flag,
                           const std::optional<std::string>& task, ChiefRule rule) {
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
  TfConfig config = interpret(document, rule, path, whole ? Layout::whole : Layout::bare_cluster);
  if (config.is_local() && !config.is_evaluator()) {
    refuse(config.cluster_path, "names no worker", "add \"worker\": [\"host:port\"].");
  }
  return config;
}

}  // namespace troupe
