#include "troupe/train/evaluation/evaluator.h"

#include <algorithm>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr const char* kPresenceName = ".troupe-evaluator";
constexpr int kPresenceTries = 10;
constexpr Seconds kPause{0.1};
constexpr int kTries = 3;  // for one checkpoint that cannot be read

std::string to_text(const TrainingGoal& goal) {
  const std::string steps = goal.max_steps ? text(*goal.max_steps) : "unset";
  return text("max_steps ", steps, " and epochs ", goal.epochs ? text(*goal.epochs) : "unset");
}

/// Lets something be said at most every ten minutes.
class Limiter final {
 public:
  bool allows(Clock::TimePoint now) {
    if (said_ && Seconds(now - *said_) < kQuiet) return false;
    said_ = now;
    return true;
  }
  void reset() { said_.reset(); }

 private:
  static constexpr Seconds kQuiet{600};
  std::optional<Clock::TimePoint> said_;
};

/// One run of the evaluator, so that what it knows has a name each.
class Evaluator final {
 public:
  Evaluator(EvaluationJob& job, const EvaluatorOptions& options, const Clock& clock, Sleep sleep)
      : job_(job), options_(options), clock_(clock), sleep_(std::move(sleep)) {}

  EvaluationRound run();

 private:
  void wait_for_start();
  /// What an evaluator before this one began and did not complete.
  void make_good();
  /// The chief's marker, if it is about this training.
  [[nodiscard]] std::optional<Finished> finished();
  [[nodiscard]] bool is_over(const std::optional<Finished>& marker);
  /// One look for a checkpoint that is new. Returns whether one was evaluated.
  bool look(const std::optional<Finished>& marker);
  [[nodiscard]] bool is_new(const std::optional<std::string>& checkpoint) const;
  /// The round of `checkpoint` or of a newer one; unset where it is gone and none is.
  std::optional<EvaluationRound> evaluate(std::string checkpoint);
  [[nodiscard]] std::string awaited(const std::optional<Finished>& marker) const;
  [[nodiscard]] Seconds waited() const { return clock_.now() - idle_since_; }
  void throw_if_idle(const std::optional<Finished>& marker) const;

  EvaluationJob& job_;
  const EvaluatorOptions& options_;
  const Clock& clock_;
  Sleep sleep_;
  std::optional<EvaluationRound> last_;
  std::optional<Clock::TimePoint> started_;  // the last evaluation
  Clock::TimePoint idle_since_;
  Limiter warnings_;
  Limiter throttle_lines_;
  bool warned_of_goal_ = false;
};

EvaluationRound Evaluator::run() {
  if (options_.throttle.count() == 0) {
    log_info("throttle_secs is 0: looks for a new checkpoint every ", options_.poll.count(), " s");
  }
  wait_for_start();
  idle_since_ = clock_.now();
  make_good();
  for (;;) {
    const std::optional<Finished> marker = finished();
    // Before the wait: nobody waits for an evaluator that has nothing left to do.
    if (is_over(marker)) return *last_;
    // Once training is over, one evaluation is left: there is nothing to save by waiting.
    const Seconds left =
        started_ && !marker ? options_.throttle - Seconds(clock_.now() - *started_) : Seconds(0);
    if (left.count() > 0) {
      if (throttle_lines_.allows(clock_.now())) {
        log_info("waits ", tenths(left), " s until the next evaluation (throttle_secs ",
                 options_.throttle.count(), " from start to start)");
      }
      if (options_.idle_timeout && !is_new(job_.latest_checkpoint())) throw_if_idle(marker);
      sleep_(std::min(options_.poll, left));
      continue;
    }
    if (look(marker)) continue;
    throw_if_idle(marker);
    sleep_(options_.poll);
  }
}

void Evaluator::wait_for_start() {
  if (options_.start_delay.count() <= 0) return;
  log_info("waits ", options_.start_delay.count(), " s before the first look for a checkpoint");
  const auto start = clock_.now();
  while (!finished()) {
    const Seconds left = options_.start_delay - Seconds(clock_.now() - start);
    if (left.count() <= 0) return;
    sleep_(std::min(options_.poll, left));
  }
}

void Evaluator::make_good() {
  const std::optional<std::string> undone = job_.left_undone();
  if (!undone) return;
  log_info("the evaluation of '", *undone, "' was begun and not completed: it is repeated");
  last_ = evaluate(*undone);
  started_.reset();  // what is new meanwhile does not wait for throttle
  idle_since_ = clock_.now();
}

std::optional<Finished> Evaluator::finished() {
  std::optional<Finished> marker = job_.finished();
  if (!marker || marker->goal == options_.goal) return marker;
  if (!warned_of_goal_) {
    log_warning("training finished at step ", marker->step, " with ", to_text(marker->goal),
                ", and this evaluator waits for ", to_text(options_.goal),
                ": start both with the same limits");
    warned_of_goal_ = true;
  }
  return std::nullopt;
}

bool Evaluator::is_over(const std::optional<Finished>& marker) {
  if (!last_) return false;
  const std::int64_t step = last_->evaluation.global_step;
  if (max_steps_reached(options_.goal, step)) {
    log_info("the evaluator ends: global step ", step, " has reached max_steps ",
             *options_.goal.max_steps);
    return true;
  }
  if (!marker || step < marker->step) return false;
  log_info("the evaluator ends: training finished at step ", marker->step, " (", marker->reason,
           ")");
  // The marker came after the last evaluation had begun its exports.
  if (step == marker->step && !last_->is_final) export_as_final(job_, *last_);
  return true;
}

bool Evaluator::look(const std::optional<Finished>& marker) {
  const std::optional<std::string> newest = job_.latest_checkpoint();
  std::optional<EvaluationRound> round;
  if (is_new(newest)) round = evaluate(*newest);
  if (!round) {
    if (warnings_.allows(clock_.now())) {
      log_warning("there is no ", awaited(marker), " yet; waited ", tenths(waited()), " s for it");
    }
    return false;
  }
  last_ = std::move(round);
  idle_since_ = clock_.now();
  warnings_.reset();
  throttle_lines_.reset();
  return true;
}

bool Evaluator::is_new(const std::optional<std::string>& checkpoint) const {
  return checkpoint && !checkpoint->empty() && (!last_ || last_->checkpoint != *checkpoint);
}

std::optional<EvaluationRound> Evaluator::evaluate(std::string checkpoint) {
  for (int tries = 1;;) {
    try {
      const auto start = clock_.now();
      EvaluationRound round = evaluate_and_export(job_, checkpoint, [&](std::int64_t step) {
        const std::optional<Finished> marker = finished();
        return max_steps_reached(options_.goal, step) || (marker && marker->step == step);
      });
      started_ = start;
      return round;
    } catch (const CheckpointError& error) {
      const std::string newest = job_.latest_checkpoint().value_or(checkpoint);
      if (newest == checkpoint && tries == kTries) throw;
      log_warning("'", checkpoint, "' was not evaluated: ", error.cause(), " The newest is '",
                  newest, "'.");
      if (!is_new(newest)) return std::nullopt;
      if (newest == checkpoint) {
        ++tries;
        sleep_(options_.poll);
      } else {
        tries = 1;
        checkpoint = newest;
      }
    }
  }
}

std::string Evaluator::awaited(const std::optional<Finished>& marker) const {
  if (marker) return text("checkpoint of step ", marker->step, ", at which training finished,");
  return last_ ? text("checkpoint newer than '", last_->checkpoint, "'") : "checkpoint";
}

void Evaluator::throw_if_idle(const std::optional<Finished>& marker) const {
  if (!options_.idle_timeout || waited() < *options_.idle_timeout) return;
  throw TimeoutError(
      text("the evaluator has waited ", tenths(waited()), " s for a ", awaited(marker),
           " (idle_timeout ", options_.idle_timeout->count(), " s)."),
      "see whether training still runs and saves into the same model directory.");
}

}  // namespace

EvaluationRound run_evaluator(EvaluationJob& job, const EvaluatorOptions& options,
                              const Clock& clock, Sleep sleep) {
  return Evaluator(job, options, clock, std::move(sleep)).run();
}

std::unique_ptr<FileLock> lock_as_evaluator(const std::string& model_dir, const Sleep& sleep) {
  PosixFileSystem files(model_dir);
  files.create_root();
  for (int tries = 0; tries < kPresenceTries; ++tries) {
    if (tries > 0) sleep(kPause);  // a chief that looks holds the lock for a moment
    if (auto lock = files.try_lock(kPresenceName)) return lock;
  }
  throw EnvironmentError("another evaluator is at work in " + model_dir + ".",
                         "start one evaluator per model directory.");
}

bool evaluator_is_present(const std::string& model_dir) {
  PosixFileSystem files(model_dir);
  if (!files.status("") || !files.status(kPresenceName)) return false;
  return files.try_lock(kPresenceName) == nullptr;
}

EvaluationListener::EvaluationListener(EvaluationJob& job, Seconds throttle,
                                       const TrainingGoal& goal, const Clock& clock)
    : job_(job),
      throttle_(throttle),
      goal_(goal),
      clock_(clock),
      // A throttle of 0 lets every new step through, which a period of seconds cannot say.
      timer_(throttle.count() == 0 ? Every::n_steps(1) : Every::n_seconds(throttle.count()),
             clock) {}

void EvaluationListener::begin() {
  timer_.reset();
  first_ = true;
  last_.reset();
  evaluated_step_.reset();
}

bool EvaluationListener::after_save(const SavedCheckpoint& saved) {
  if (std::exchange(first_, false)) {
    if (job_.left_undone() == saved.path) {
      log_info("the evaluation of '", saved.path, "' was begun and not completed: it is repeated");
      evaluate(saved);
    } else if (job_.is_anothers()) {
      return false;
    } else if (saved.step == 0) {
      job_.note_fresh(saved.path);
    } else if (throttle_.count() == 0 && job_.evaluated_step().value_or(saved.step) < saved.step) {
      log_info("'", saved.path, "' was not evaluated by the process that has saved it");
      evaluate(saved);
    }
    return false;
  }
  if (job_.is_anothers()) return false;
  if (timer_.due(saved.step)) {
    evaluate(saved);
  } else {
    log_info("evaluation of model.ckpt-", saved.step, " skipped: ", tenths(clock_.now() - started_),
             " s of throttle_secs ", throttle_.count(), " have passed");
  }
  return false;
}

bool EvaluationListener::wants_evaluation(const SavedCheckpoint& saved, bool ends) {
  if (job_.is_anothers()) return false;
  if (ends) return evaluated_step_ != saved.step && !job_.is_settled(saved.path);
  return !first_ && timer_.due(saved.step);
}

void EvaluationListener::end(const SavedCheckpoint& saved) {
  if (job_.is_anothers()) return;
  if (evaluated_step_ == saved.step) {
    // Nobody knew then that training would end here: the input was over, or a callback stopped it.
    if (!last_->is_final) export_as_final(job_, *last_);
    return;
  }
  if (job_.is_settled(saved.path)) return;  // by an earlier start of a run that was over
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
