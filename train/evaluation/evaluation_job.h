// How the roles of train_and_evaluate get the evaluation of a checkpoint and its exports. They need
// no more of an estimator than EvaluationJob, so they are tested without a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/train/evaluation/evaluation.h"
#include "troupe/train/evaluation/finished_marker.h"

namespace troupe {

class EvaluationJob {
 public:
  virtual ~EvaluationJob() = default;
  /// The directory of the newest complete checkpoint; unset: there is none yet.
  [[nodiscard]] virtual std::optional<std::string> latest_checkpoint() = 0;
  /// Evaluates that checkpoint and writes the summaries.
  /// Throws: CheckpointError if it no longer exists or is damaged.
  [[nodiscard]] virtual Evaluation evaluate(const std::string& checkpoint) = 0;
  /// Runs the exporters, in their order; one result each, unset if an exporter chose not to or
  /// failed. A failure is logged and does not end training; the job's owner reports it at the end.
  virtual std::vector<std::optional<std::string>> export_models(const std::string& checkpoint,
                                                                const Evaluation& evaluation,
                                                                bool is_final) = 0;
  /// The checkpoint that an earlier process began to evaluate and export and did not complete;
  /// unset: there is none, or the checkpoint is gone.
  [[nodiscard]] virtual std::optional<std::string> left_undone() = 0;
  /// The step of the last checkpoint whose evaluation was begun; unset: none was.
  [[nodiscard]] virtual std::optional<std::int64_t> evaluated_step() { return std::nullopt; }
  /// A training begins at step 0, whose checkpoint is not evaluated, and is to be known to be.
  virtual void note_fresh(const std::string& /*checkpoint*/) {}
  /// Whether the checkpoint was evaluated, and offered to every exporter as the final one.
  [[nodiscard]] virtual bool is_settled(const std::string& checkpoint) = 0;
  /// The marker that the chief left when training ended; unset: it has not ended.
  [[nodiscard]] virtual std::optional<Finished> finished() = 0;
  /// Whether another process evaluates and exports the checkpoints, so that this one must not.
  /// Default: no.
  [[nodiscard]] virtual bool is_anothers() { return false; }
};

/// A checkpoint that was evaluated, and offered to the exporters.
struct EvaluationRound {
  std::string checkpoint;
  Evaluation evaluation;
  std::vector<std::optional<std::string>> exports;
  bool is_final = false;  // the exporters were told so
};

/// Evaluates `checkpoint` and runs the exporters. `is_final` is called between the two, with the
/// evaluation's step, because training may end meanwhile.
/// Throws: ConfigError if the evaluation has no metrics; what the job throws.
[[nodiscard]] EvaluationRound evaluate_and_export(
    EvaluationJob& job, const std::string& checkpoint,
    const std::function<bool(std::int64_t step)>& is_final);

/// For a `round` that only later turns out to be the final one: runs the exporters again and tells
/// them so. An exporter that chooses not to export again keeps its former result.
void export_as_final(EvaluationJob& job, EvaluationRound& round);

/// Whether the evaluation of `step` has reached goal.max_steps. Step 0 never has.
[[nodiscard]] bool max_steps_reached(const TrainingGoal& goal, std::int64_t step);

/// A time in seconds, as lines show it.
[[nodiscard]] double tenths(Seconds duration);

}  // namespace troupe
