#include "estimator/roles/evaluator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace troupe {
namespace {

using Status = EvaluationRound::Status;

constexpr int kTries = 3;  // for one checkpoint that cannot be read

/// In seconds, as lines show it.
double shown(Seconds duration) { return std::round(duration.count() * 10) / 10; }

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
  Evaluator(EvaluationJob& job, const EvaluatorOptions& options, const Clock& clock,
            Sleeper& sleeper)
      : job_(job), options_(options), clock_(clock), sleeper_(sleeper) {}

  std::optional<EvaluationRound> run();

 private:
  /// The chief's marker, if it is about this training.
  [[nodiscard]] std::optional<Finished> finished();
  [[nodiscard]] bool is_over(const std::optional<Finished>& marker);
  [[nodiscard]] Seconds throttle_left(const std::optional<Finished>& marker) const;
  /// One look for a checkpoint, with its callbacks. Unset: a callback ends the evaluator.
  std::optional<Status> look(const std::optional<Finished>& marker);
  [[nodiscard]] bool is_new(const std::optional<std::string>& checkpoint) const;
  /// The round of `checkpoint` or of a newer one; of status `missing` where it is gone and none is.
  EvaluationRound evaluate(std::string checkpoint);
  [[nodiscard]] EvaluationRound nothing_new(const std::optional<Finished>& marker);
  [[nodiscard]] std::string awaited(const std::optional<Finished>& marker) const;
  [[nodiscard]] Seconds waited() const { return clock_.now() - idle_since_; }
  void throw_if_idle(const std::optional<Finished>& marker) const;

  EvaluationJob& job_;
  const EvaluatorOptions& options_;
  const Clock& clock_;
  Sleeper& sleeper_;
  std::optional<EvaluationRound> last_;      // of those that evaluated
  std::optional<Clock::TimePoint> started_;  // the last evaluation
  Clock::TimePoint idle_since_;
  Limiter warnings_;
  Limiter throttle_lines_;
  bool warned_of_goal_ = false;
};

std::optional<EvaluationRound> Evaluator::run() {
  if (options_.throttle.count() == 0) {
    log_info("throttle_secs is 0: looks for a new checkpoint every ", options_.poll.count(), " s");
  }
  if (options_.start_delay.count() > 0) {
    log_info("waits ", options_.start_delay.count(), " s before the first look for a checkpoint");
    sleeper_.sleep(options_.start_delay);
  }
  idle_since_ = clock_.now();
  for (;;) {
    const std::optional<Finished> marker = finished();
    // Before the wait: nobody waits for an evaluator that has nothing left to do.
    if (is_over(marker)) return last_;
    const Seconds left = throttle_left(marker);
    if (left.count() > 0) {
      if (throttle_lines_.allows(clock_.now())) {
        log_info("waits ", shown(left), " s until the next evaluation (throttle_secs ",
                 options_.throttle.count(), " from start to start)");
      }
      if (options_.idle_timeout && !is_new(job_.latest_checkpoint())) throw_if_idle(marker);
      sleeper_.sleep(std::min(options_.poll, left));
      continue;
    }
    const std::optional<Status> status = look(marker);
    if (!status) return last_;
    if (*status == Status::evaluated) continue;
    throw_if_idle(marker);
    sleeper_.sleep(options_.poll);
  }
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

Seconds Evaluator::throttle_left(const std::optional<Finished>& marker) const {
  // Once training is over, one evaluation is left: there is nothing to save by waiting.
  if (!started_ || marker) return Seconds(0);
  return options_.throttle - Seconds(clock_.now() - *started_);
}

std::optional<Status> Evaluator::look(const std::optional<Finished>& marker) {
  if (options_.before_evaluation && !options_.before_evaluation()) {
    log_info("the evaluator ends: before_evaluation asks for it");
    return std::nullopt;
  }
  const std::optional<std::string> newest = job_.latest_checkpoint();
  EvaluationRound round;
  if (is_new(newest)) round = evaluate(*newest);
  if (round.status == Status::evaluated) {
    last_ = round;
    idle_since_ = clock_.now();
    warnings_.reset();
    throttle_lines_.reset();
  } else {
    round = nothing_new(marker);
  }
  if (options_.after_evaluation && !options_.after_evaluation(round)) {
    log_info("the evaluator ends: after_evaluation asks for it");
    return std::nullopt;
  }
  return round.status;
}

bool Evaluator::is_new(const std::optional<std::string>& checkpoint) const {
  return checkpoint && !checkpoint->empty() && (!last_ || last_->checkpoint != *checkpoint);
}

EvaluationRound Evaluator::evaluate(std::string checkpoint) {
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
      if (!is_new(newest)) return {};
      if (newest == checkpoint) {
        ++tries;
        sleeper_.sleep(options_.poll);
      } else {
        tries = 1;
        checkpoint = newest;
      }
    }
  }
}

EvaluationRound Evaluator::nothing_new(const std::optional<Finished>& marker) {
  EvaluationRound round;
  round.status = last_ ? Status::no_new : Status::missing;
  if (warnings_.allows(clock_.now())) {
    log_warning("there is no ", awaited(marker), " yet; waited ", shown(waited()), " s for it");
  }
  return round;
}

std::string Evaluator::awaited(const std::optional<Finished>& marker) const {
  if (marker) return text("checkpoint of step ", marker->step, ", at which training finished,");
  return last_ ? text("checkpoint newer than '", last_->checkpoint, "'") : "checkpoint";
}

void Evaluator::throw_if_idle(const std::optional<Finished>& marker) const {
  if (!options_.idle_timeout || waited() < *options_.idle_timeout) return;
  throw TimeoutError(
      text("the evaluator has waited ", shown(waited()), " s for a ", awaited(marker),
           " (idle_timeout ", options_.idle_timeout->count(), " s)."),
      "see whether training still runs and saves into the same model directory.");
}

}  // namespace

EvaluationRound evaluate_and_export(EvaluationJob& job, const std::string& checkpoint,
                                    const std::function<bool(std::int64_t step)>& is_final) {
  EvaluationRound round;
  round.checkpoint = checkpoint;
  round.evaluation = job.evaluate(checkpoint);
  if (round.evaluation.metrics.empty()) {
    throw ConfigError(text("the evaluation of '", checkpoint, "' has no metrics."),
                      "let the evaluation report a loss at least.");
  }
  round.is_final = is_final(round.evaluation.global_step);
  round.exports = job.export_models(checkpoint, round.evaluation, round.is_final);
  round.status = Status::evaluated;
  return round;
}

void export_as_final(EvaluationJob& job, EvaluationRound& round) {
  const auto former =
      std::exchange(round.exports, job.export_models(round.checkpoint, round.evaluation, true));
  for (std::size_t i = 0; i < std::min(former.size(), round.exports.size()); ++i) {
    if (!round.exports[i]) round.exports[i] = former[i];
  }
  round.is_final = true;
}

bool max_steps_reached(const TrainingGoal& goal, std::int64_t step) {
  return goal.max_steps && step != 0 && step >= *goal.max_steps;
}

void EvaluatorOptions::validate() const {
  const auto check = [](const char* name, Seconds time, bool good) {
    if (good) return;
    throw ConfigError(text(name, " of the evaluator is ", time.count(), " s."), "give more.");
  };
  constexpr Seconds kZero(0);
  check("start_delay_secs", start_delay, start_delay >= kZero);
  check("throttle_secs", throttle, throttle >= kZero);
  check("poll", poll, poll > kZero);
  if (idle_timeout) check("idle_timeout", *idle_timeout, *idle_timeout > kZero);
}

std::optional<EvaluationRound> run_evaluator(EvaluationJob& job, const EvaluatorOptions& options,
                                             const Clock& clock, Sleeper& sleeper) {
  options.validate();
  return Evaluator(job, options, clock, sleeper).run();
}

}  // namespace troupe
