// Task: who this process is among a job's processes, in the words of Estimator's RunConfig. Plain
// data; cli/ derives it from TF_CONFIG or from the launcher's variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// The defaults are those of a process that runs alone.
struct Task {
  std::string task_type = "worker";  // chief, worker, ps, evaluator
  std::int64_t task_id = 0;
  bool is_chief = true;
  std::int64_t num_worker_replicas = 1;  // workers and chief
  std::int64_t num_ps_replicas = 0;
  std::string master;  // "grpc://" and the own address; empty: local, one task, evaluator
  std::string evaluation_master;  // of the evaluator and of local mode
  /// Chief first, other jobs by name, ps last; the evaluator has none and takes none.
  std::optional<std::int64_t> global_id_in_cluster = 0;

  /// No other process belongs to the job: this one trains and evaluates.
  bool is_alone = true;
  /// Another process of the job is known to evaluate. It may be there without this being set.
  bool evaluator_expected = false;

  [[nodiscard]] bool is_evaluator() const { return task_type == "evaluator"; }
};

}  // namespace troupe
