// TF_CONFIG: the JSON in which TensorFlow's users and their schedulers describe a cluster, read by
// the rules of Estimator's RunConfig and of tf.distribute. docs/cluster.md has the table of fields.
//
// parse_tf_config checks what belongs to the document: types, roles, indices. Addresses stay text
// (tools write names there that are never connected to); to_cluster checks the ones it hands on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "options/cluster.h"
#include "options/task.h"

namespace troupe {

/// Whether a cluster must name its chief. required: Estimator's rule. optional: the rule of
/// synchronous training, where worker 0 is the chief if none is named; it holds for clusters
/// without parameter servers.
enum class ChiefRule { required, optional };

/// The addresses of one job, by task index.
struct TfJob {
  enum class Form { list, sparse };  // ["a:1", "b:2"] or {"0": "a:1", "1": "b:2"}
  Form form = Form::list;
  std::map<std::int64_t, std::string> addresses;
};

/// A TF_CONFIG and what follows from it. The defaults are those of a process without TF_CONFIG.
struct TfConfig : Task {
  std::string name = "TF_CONFIG";                  // what messages call the document
  std::string cluster_path = "TF_CONFIG.cluster";  // where the jobs stand in it
  std::map<std::string, TfJob> cluster;            // by job; empty: local

  std::optional<std::string> service;  // JSON text, as given
  std::optional<std::string> session_master;
  std::optional<std::string> eval_session_master;
  std::optional<std::string> model_dir;
  std::optional<std::string> environment;
  std::optional<std::string> rpc_layer;

  std::vector<std::string> warnings;  // for the log, once

  [[nodiscard]] bool is_local() const { return cluster.empty(); }
};

/// Reads a document; `name` is what messages call it.
/// Throws: ConfigError naming the JSON path ("TF_CONFIG.cluster.worker[1]") and the fix. Of several
/// faults, Estimator's order decides which is reported.
[[nodiscard]] TfConfig parse_tf_config(const std::string& document, ChiefRule rule,
                                       const std::string& name = "TF_CONFIG");

/// Reads a cluster file: the same document, or only its "cluster" part. `task` ("worker:1") takes
/// the place of the document's task. `flag` is what named the file.
[[nodiscard]] TfConfig read_cluster_file(const std::string& path, const std::string& flag,
                                         const std::optional<std::string>& task, ChiefRule rule);

/// The document with another task; the same rules.
[[nodiscard]] TfConfig parse_tf_config_as(const std::string& document, const std::string& task,
                                          ChiefRule rule, const std::string& name = "TF_CONFIG");

/// The group of chief and workers, chief first (without a chief, worker 0 leads), and the parameter
/// servers beside it: the job `ps`. A job `evaluator` is left out.
/// Throws: ConfigError for an evaluator task, any other job, an index that is missing in a sparse
/// job, a bad address, an address given twice, a local document.
[[nodiscard]] Cluster to_cluster(const TfConfig& config);

/// The evaluator's place: a group of its own, with nobody to talk to.
/// Throws: ConfigError if its index is not 0, for there is one evaluator.
[[nodiscard]] Cluster evaluator_cluster(const TfConfig& config);

/// The model_dir that both sides agree on: what the program was given and what TF_CONFIG says.
/// Throws: ConfigError where they differ or one is empty text.
[[nodiscard]] std::optional<std::string> agreed_model_dir(const TfConfig& config,
                                                          const std::optional<std::string>& given);

}  // namespace troupe
