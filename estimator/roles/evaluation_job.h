// EvaluationJob: what the roles of train_and_evaluate need of an estimator, and no more; so they
// are tested without a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/roles/evaluation.h"
#include "estimator/roles/finished_marker.h"

namespace troupe {

class EvaluationJob {
 public:
  virtual ~EvaluationJob() = default;
  /// The directory of the newest complete checkpoint; unset: there is none yet.
  [[nodiscard]] virtual std::optional<std::string> latest_checkpoint() = 0;
  /// Evaluates that checkpoint and writes the summaries.
  /// Throws: CheckpointError when it is not there any more or not good.
  [[nodiscard]] virtual Evaluation evaluate(const std::string& checkpoint) = 0;
  /// Runs the exporters, in their order; one answer each, unset where an exporter chose not to.
  virtual std::vector<std::optional<std::string>> export_models(const std::string& checkpoint,
                                                                const Evaluation& evaluation,
                                                                bool is_final) = 0;
  /// What the chief left when its training ended; unset: it has not ended.
  [[nodiscard]] virtual std::optional<Finished> finished() = 0;
};

}  // namespace troupe
