// TfDocument: what a TF_CONFIG or a cluster file says, before it is judged. A part of
// tf_config.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace troupe {

/// The addresses of one job, by task index: ["a:1", "b:2"] or {"0": "a:1", "1": "b:2"}.
using Job = std::map<std::int64_t, std::string>;

/// A document's cluster and task, before they are judged.
struct TfDocument {
  std::string name;
  std::string cluster_path;
  bool is_sparse = false;  // the jobs stand under "sparseCluster"
  std::map<std::string, Job> jobs;
  std::optional<std::string> stated_type;
  const nlohmann::json* stated_index = nullptr;
  std::string task_type = "worker";
  std::int64_t task_id = 0;

  [[nodiscard]] bool is_evaluator() const { return task_type == "evaluator"; }
};

/// Where the jobs stand: under "cluster" or "sparseCluster", or at the top.
enum class Layout { whole, bare_cluster };

/// Reads an object; `name` is what messages call it. The result points into `given`.
/// Throws: ConfigError for a wrong type, a bad index, an address that is no string.
[[nodiscard]] TfDocument read_tf_document(const nlohmann::json& given, const std::string& name,
                                          Layout layout);

/// A member that is a string; unset where there is none, or null.
[[nodiscard]] std::optional<std::string> string_member(const nlohmann::json& object,
                                                       const char* key, const std::string& name);

/// Null where a member is missing, or is JSON's null.
[[nodiscard]] const nlohmann::json* json_member(const nlohmann::json& object, const char* key);

/// Throws: ConfigError "`where` `what`.", with the fix.
[[noreturn]] void refuse_at(const std::string& where, const std::string& what,
                            const std::string& fix);

}  // namespace troupe
