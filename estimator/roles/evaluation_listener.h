// EvaluationListener: evaluation in the process that trains, driven by its checkpoints, so the
// training data keeps its position. The rules are those of Estimator's local mode.
#pragma once

#include <cstdint>
#include <optional>

#include "core/clock.h"
#include "estimator/roles/evaluation.h"
#include "train/callbacks/callbacks.h"
#include "train/callbacks/step_timer.h"

namespace troupe {

class EvaluationListener final : public SavingListener {
 public:
  /// `throttle` is between starts of evaluations, 0 or more; that of goal.max_steps is the final
  /// one. `job` and `clock` outlive the listener.
  EvaluationListener(EvaluationJob& job, Seconds throttle, const TrainingGoal& goal,
                     const Clock& clock);

  void begin() override;
  /// The first save, at the start of the run, is never evaluated. A later one is when the throttle
  /// has passed.
  Answer after_save(const SavedCheckpoint& saved) override;
  /// Evaluates the last checkpoint unless that was done, whatever the throttle says; this one is
  /// the final evaluation, also where training stopped before max_steps; one that was done as just
  /// another is exported again as the final one.
  void end(const SavedCheckpoint& saved) override;

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
