// Who evaluates the checkpoints of a training: the evaluator, a process of its own that needs
// nothing but the model directory, or a listener in the process that trains.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/core/file_system.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/callbacks/step_timer.h"
#include "troupe/train/evaluation/evaluation.h"
#include "troupe/train/evaluation/evaluation_job.h"

namespace troupe {

struct EvaluatorOptions {
  Seconds start_delay{120};  // before the first look; the end of training cuts it short
  Seconds throttle{600};     // between starts of evaluations; 0: every checkpoint that is there
  Seconds poll{1};    // between looks: for the end of training; after throttle for a checkpoint
  TrainingGoal goal;  // the evaluator ends at goal.max_steps or at a marker of this goal
  /// Ends with an error when nothing new has come for so long since the last evaluation; unset:
  /// waits for ever.
  std::optional<Seconds> idle_timeout;
};

/// Waits for checkpoints and evaluates the newest, until training is over; first the one that an
/// evaluator before it left undone, if it is still there. Returns the last evaluation. A checkpoint
/// that retention deleted while it was read is followed by the newer one. Once the chief's marker
/// says that training is over, throttle does not delay the last evaluation. Every wait is logged
/// with what it waits for, at most every ten minutes. `options` are those of a valid EvalSpec, with
/// a poll above 0. Blocks: until training is over. Throws: TimeoutError after idle_timeout; what
/// the job throws.
EvaluationRound run_evaluator(EvaluationJob& job, const EvaluatorOptions& options,
                              const Clock& clock, Sleep sleep = &sleep_for);

/// By the lock file `.troupe-evaluator` of a model directory the chief knows whether an evaluator
/// is at work; cluster descriptions often do not say. The evaluator holds it as long as it lives.
/// Makes the model directory where it is missing. Blocks: a second, where the lock is taken.
/// Throws: EnvironmentError where another evaluator is at work there.
[[nodiscard]] std::unique_ptr<FileLock> lock_as_evaluator(const std::string& model_dir,
                                                          const Sleep& sleep = &sleep_for);

/// Looks by taking the lock for a moment, so the chief alone asks. On a network file system without
/// locks between machines: false.
[[nodiscard]] bool evaluator_is_present(const std::string& model_dir);

/// Evaluation in the process that trains, driven by its checkpoints, so the training data keeps its
/// position. The rules are those of Estimator's local mode.
class EvaluationListener final : public SavingListener {
 public:
  /// `throttle` is between starts of evaluations, 0 or more; that of goal.max_steps is the final
  /// one. `job` and `clock` outlive the listener.
  EvaluationListener(EvaluationJob& job, Seconds throttle, const TrainingGoal& goal,
                     const Clock& clock);

  void begin() override;
  /// The first save, at the start of the run, is evaluated only if the process before this one left
  /// that undone: it was begun, or there is no throttle. A later one is when the throttle has
  /// passed.
  bool after_save(const SavedCheckpoint& saved) override;
  /// Evaluates the last checkpoint unless that was done, here or by an earlier process, whatever
  /// the throttle says; this one is the final evaluation, also where training stopped before
  /// max_steps; one that was done here as just another is offered again as the final one.
  void end(const SavedCheckpoint& saved) override;
  [[nodiscard]] bool wants_evaluation(const SavedCheckpoint& saved, bool ends) override;

  /// Unset: nothing was evaluated.
  [[nodiscard]] const std::optional<EvaluationRound>& last() const { return last_; }

 private:
  void evaluate(const SavedCheckpoint& saved);

  EvaluationJob& job_;
  const Seconds throttle_;
  const TrainingGoal goal_;
  const Clock& clock_;
  StepTimer timer_;
  Clock::TimePoint started_;  // the last evaluation
  bool first_ = true;
  std::optional<EvaluationRound> last_;
  std::optional<std::int64_t> evaluated_step_;
};

}  // namespace troupe
