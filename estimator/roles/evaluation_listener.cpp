#include "estimator/roles/evaluation_listener.h"

#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace troupe {
namespace {

/// A throttle of 0 lets every new step through, which a period of seconds cannot say.
Every period(Seconds throttle) {
  return throttle.count() == 0 ? Every::n_steps(1) : Every::n_seconds(throttle.count());
}

EvaluationListener::Options checked(EvaluationListener::Options options) {
  if (!(options.throttle.count() >= 0)) {
    throw ConfigError(text("throttle_secs is ", options.throttle.count(), "."),
                      "give 0 (every checkpoint) or more seconds.");
  }
  return options;
}

/// In seconds, as lines show it.
double tenths(Seconds duration) { return std::round(duration.count() * 10) / 10; }

}  // namespace

EvaluationListener::EvaluationListener(EvaluationJob& job, Options options, const Clock& clock)
    : job_(job),
      options_(checked(std::move(options))),
      clock_(clock),
      timer_(period(options_.throttle), clock) {}

void EvaluationListener::begin() {
  timer_.reset();
  first_ = true;
  last_.reset();
  evaluated_step_.reset();
}

SavingListener::Answer EvaluationListener::after_save(const SavedCheckpoint& saved) {
  if (std::exchange(first_, false)) return Answer::go_on;
  if (!may_evaluate()) {
    log_info("training stops at step ", saved.step, ": before_evaluation asks for it");
    return Answer::stop;
  }
  if (!timer_.due(saved.step)) {
    log_info("evaluation of model.ckpt-", saved.step, " skipped: ", tenths(clock_.now() - started_),
             " s of throttle_secs ", options_.throttle.count(), " have passed");
    return Answer::go_on;
  }
  if (evaluate(saved)) return Answer::go_on;
  log_info("training stops at step ", saved.step, ": after_evaluation asks for it");
  return Answer::stop;
}

void EvaluationListener::end(const SavedCheckpoint& saved) {
  if (evaluated_step_ == saved.step) {
    // Nobody knew then that training would end here: the input was over, or a callback stopped it.
    if (!last_->is_final) export_as_final(job_, *last_);
    return;
  }
  if (!may_evaluate()) {
    log_info("model.ckpt-", saved.step, " is not evaluated: before_evaluation asks for it");
    return;
  }
  SavedCheckpoint last = saved;
  last.last = true;
  evaluate(last);
}

bool EvaluationListener::may_evaluate() const {
  return !options_.before_evaluation || options_.before_evaluation();
}

bool EvaluationListener::evaluate(const SavedCheckpoint& saved) {
  // Before the evaluation: throttle counts from start to start.
  timer_.mark(saved.step);
  started_ = clock_.now();
  last_ = evaluate_and_export(job_, saved.path, [&](std::int64_t step) {
    return saved.last || max_steps_reached({options_.max_steps, std::nullopt}, step);
  });
  evaluated_step_ = saved.step;
  return !options_.after_evaluation || options_.after_evaluation(*last_);
}

}  // namespace troupe
