#include "troupe/cli/cluster/tf_document.h"

#include "troupe/cli/cluster/json_document.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {

using nlohmann::json;

void refuse_at(const std::string& where, const std::string& what, const std::string& fix) {
  throw ConfigError(text(where, ' ', what, "."), fix);
}

const json* json_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> string_member(const json& object, const char* key,
                                         const std::string& name) {
  const json* const found = json_member(object, key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) {
    refuse_at(text(name, '.', key), text("is ", json_kind(*found)), "write a string, in quotes.");
  }
  return found->get<std::string>();
}

namespace {

constexpr std::int64_t kMaxTasks = 4096;  // of one job

std::string address_of(const json& value, const std::string& where) {
  if (!value.is_string()) {
    refuse_at(where, text("is ", json_kind(value)), "write \"host:port\", in quotes.");
  }
  return value.get<std::string>();
}

Job parse_list(const json& list, const std::string& where) {
  Job job;
  if (list.size() > static_cast<std::size_t>(kMaxTasks)) {
    refuse_at(where, text("has more than ", kMaxTasks, " addresses"), "name fewer.");
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
    if (!index || *index < 0 || *index >= kMaxTasks) {
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
  document.stated_type = string_member(*found, "type", document.name + ".task");
  if (document.stated_type == "") document.stated_type.reset();
  document.stated_index = json_member(*found, "index");
}

}  // namespace

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

}  // namespace troupe
