// The evaluator: waits for checkpoints and evaluates the newest, until training is over. A process
// of its own that needs nothing but the model directory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/clock.h"
#include "core/file_system.h"
#include "estimator/roles/evaluation.h"

namespace troupe {

struct EvaluatorOptions {
  Seconds start_delay{120};
  Seconds throttle{600};  // between starts of evaluations; 0: every checkpoint that is there
  Seconds poll{1};        // between looks: for the end of training; after throttle for a checkpoint
  TrainingGoal goal;      // the evaluator ends at goal.max_steps or at a marker of this goal
  /// Ends with an error when nothing new has come for so long since the last evaluation; unset:
  /// waits for ever.
  std::optional<Seconds> idle_timeout;
};

/// Returns the last evaluation. A checkpoint that retention deleted while
/// it was read is followed by the newer one. Once the chief's marker says that training is over,
/// throttle does not delay the last evaluation. Every wait is logged with what it waits for, at
/// most every ten minutes. `options` are those of a valid EvalSpec, with a poll above 0.
/// Blocks: until training is over.
/// Throws: TimeoutError after idle_timeout; what the job throws.
EvaluationRound run_evaluator(EvaluationJob& job, const EvaluatorOptions& options,
                              const Clock& clock, Sleep sleep = &sleep_for);

/// By the lock file `.troupe-evaluator` of a model directory the chief knows whether an evaluator
/// is at work; cluster descriptions often do not say. Held by the evaluator as long as it lives.
class EvaluatorPresence {
 public:
  /// Makes the model directory where it is missing. Blocks: a second, where the lock is taken.
  /// Throws: EnvironmentError where another evaluator is at work there.
  explicit EvaluatorPresence(const std::string& model_dir, const Sleep& sleep = &sleep_for);

 private:
  PosixFileSystem files_;
  std::unique_ptr<FileLock> lock_;
};

/// Looks by taking the lock for a moment, so the chief alone asks. On a network file system without
/// locks between machines: false.
[[nodiscard]] bool evaluator_is_present(const std::string& model_dir);

}  // namespace troupe
