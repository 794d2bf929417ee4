// TF_CONFIG: the JSON in which TensorFlow's users and their schedulers describe a cluster, read by
// the rules of Estimator's RunConfig and of tf.distribute. docs/cluster.md has the table of fields.
//
// Checked are types, roles, indices and the addresses of the tasks that train. Of several faults
// Estimator's order decides which is reported.
#pragma once

#include <optional>
#include <string>

#include "troupe/core/options/cluster.h"

namespace troupe {

/// What a document says of this process.
struct TfConfig {
  std::string name = "TF_CONFIG";                  // what messages call the document
  std::string cluster_path = "TF_CONFIG.cluster";  // where the jobs stand in it
  /// Chief and workers, chief first (without a chief, worker 0 leads), the parameter servers beside
  /// them (the job `ps`), and this process's place. Unset: the document names no cluster.
  std::optional<Cluster> cluster;
  std::optional<std::string> model_dir;
};

/// Reads a document; `name` is what messages call it. `task` ("worker:1") takes the place of the
/// document's task.
/// Throws: ConfigError naming the JSON path ("TF_CONFIG.cluster.worker[1]") and the fix.
[[nodiscard]] TfConfig parse_tf_config(const std::string& document,
                                       const std::optional<std::string>& task = std::nullopt,
                                       const std::string& name = "TF_CONFIG");

/// Reads a cluster file, which names a cluster: the same document, or only its "cluster" part.
/// `flag` is what named the file.
[[nodiscard]] TfConfig read_cluster_file(const std::string& path, const std::string& flag,
                                         const std::optional<std::string>& task);

}  // namespace troupe
