// The evaluator: waits for checkpoints and evaluates the newest, until training is over. A process
// of its own that needs nothing but the model directory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/clock.h"
#include "estimator/roles/evaluation_job.h"
#include "estimator/roles/sleeper.h"

namespace troupe {

/// What one round of the evaluator came to.
struct EvaluationRound {
  enum class Status { evaluated, missing, no_new };
  Status status = Status::missing;
  std::string checkpoint;                           // evaluated
  Evaluation evaluation;                            // evaluated
  std::vector<std::optional<std::string>> exports;  // evaluated
  bool is_final = false;                            // evaluated: the exporters were told so
};

/// Evaluates `checkpoint` and runs the exporters. `is_final` is asked between the two, with the
/// evaluation's step, since training may end meanwhile.
/// Throws: ConfigError where the evaluation has no metrics; what the job throws.
[[nodiscard]] EvaluationRound evaluate_and_export(
    EvaluationJob& job, const std::string& checkpoint,
    const std::function<bool(std::int64_t step)>& is_final);

/// Where it turns out only later that `round` was the final one: runs the exporters again and tells
/// them so. An exporter that does not choose to export again keeps its former answer.
void export_as_final(EvaluationJob& job, EvaluationRound& round);

/// Whether the evaluation of `step` has reached goal.max_steps. Step 0 never has.
[[nodiscard]] bool max_steps_reached(const TrainingGoal& goal, std::int64_t step);

struct EvaluatorOptions {
  Seconds start_delay{120};
  Seconds throttle{600};  // between starts of evaluations; 0: every checkpoint that is there
  Seconds poll{1};        // between looks: for the end of training; after throttle for a checkpoint
  TrainingGoal goal;      // the evaluator ends at goal.max_steps or at a marker of this goal
  /// Ends with an error when nothing new has come for so long since the last evaluation; unset:
  /// waits for ever.
  std::optional<Seconds> idle_timeout;
  std::function<bool()> before_evaluation;  // at every look; false: end. Null: go on
  std::function<bool(const EvaluationRound&)> after_evaluation;  // of every look; the same

  /// Throws: ConfigError for a time below 0, and for a poll or an idle_timeout of 0.
  void validate() const;
};

/// Returns the last evaluation; unset if there was none. A checkpoint that retention deleted while
/// it was read is followed by the newer one. Once the chief's marker says that training is over,
/// throttle does not delay the last evaluation. Every wait is logged with what it waits for, at
/// most every ten minutes.
/// Blocks: until training is over.
/// Throws: TimeoutError after idle_timeout; ConfigError as validate; what the job throws.
std::optional<EvaluationRound> run_evaluator(EvaluationJob& job, const EvaluatorOptions& options,
                                             const Clock& clock, Sleeper& sleeper);

}  // namespace troupe
