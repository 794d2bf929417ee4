#include "estimator/roles/evaluation_listener.h"

#include <utility>

#include "core/log.h"

namespace troupe {
namespace {

/// A throttle of 0 lets every new step through, which a period of seconds cannot say.
Every period(Seconds throttle) {
  return throttle.count() == 0 ? Every::n_steps(1) : Every::n_seconds(throttle.count());
}

}  // namespace

EvaluationListener::EvaluationListener(EvaluationJob& job, Seconds throttle,
                                       const TrainingGoal& goal, const Clock& clock)
    : job_(job), throttle_(throttle), goal_(goal), clock_(clock), timer_(period(throttle), clock) {}

void EvaluationListener::begin() {
  timer_.reset();
  first_ = true;
  last_.reset();
  evaluated_step_.reset();
}

SavingListener::Answer EvaluationListener::after_save(const SavedCheckpoint& saved) {
  if (std::exchange(first_, false)) return Answer::go_on;
  if (!timer_.due(saved.step)) {
    log_info("evaluation of model.ckpt-", saved.step, " skipped: ", tenths(clock_.now() - started_),
             " s of throttle_secs ", throttle_.count(), " have passed");
    return Answer::go_on;
  }
  evaluate(saved);
  return Answer::go_on;
}

void EvaluationListener::end(const SavedCheckpoint& saved) {
  if (evaluated_step_ == saved.step) {
    // Nobody knew then that training would end here: the input was over, or a callback stopped it.
    if (!last_->is_final) export_as_final(job_, *last_);
    return;
  }
  SavedCheckpoint last = saved;
  last.last = true;
  evaluate(last);
}

void EvaluationListener::evaluate(const SavedCheckpoint& saved) {
  // Before the evaluation: throttle counts from start to start.
  timer_.mark(saved.step);
  started_ = clock_.now();
  last_ = evaluate_and_export(job_, saved.path, [&](std::int64_t step) {
    return saved.last || max_steps_reached(goal_, step);
  });
  evaluated_step_ = saved.step;
}

}  // namespace troupe
