// InMemoryEvaluator: an action that evaluates the weights as they are in the training process,
// before the first step, every n steps and at the end, without a checkpoint between.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "estimator/estimator.h"
#include "hooks/hooks.h"
#include "train/callbacks/periodic_action.h"
#include "train/callbacks/step_timer.h"

namespace troupe {

class InMemoryEvaluator final : public PeriodicAction {
 public:
  struct Options {
    std::int64_t every_n_steps = 100;
    std::optional<std::int64_t> steps;  // batches of an evaluation; unset: all
    std::string name;                   // results go to eval_<name>; empty: eval
    InputFunction input;                // null: the validation split, or else the test split
  };

  /// `estimator` and `clock` outlive the action.
  /// Throws: ConfigError where several workers train: no other could take part meanwhile.
  InMemoryEvaluator(Estimator& estimator, Options options, const Clock& clock);

  void ready(RunControl& run) override;
  void after_step(const StepReport& report, RunControl& run) override;
  void end(RunControl& run) override;

  /// What it came to, in the order in which it was evaluated.
  [[nodiscard]] const std::vector<Evaluation>& evaluations() const { return evaluations_; }

 private:
  void evaluate(RunControl& run);

  Estimator& estimator_;
  Options options_;
  StepTimer timer_;
  std::vector<Evaluation> evaluations_;
};

}  // namespace troupe
