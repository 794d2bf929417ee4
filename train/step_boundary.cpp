#include "troupe/train/step_boundary.h"

#include <cmath>
#include <utility>

#include "troupe/core/log.h"
#include "troupe/core/options/checkpoint_cadence.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/checkpoint/warm_start.h"

namespace troupe::detail {
namespace {

// For the chief, which got the same signal, to save and end training for all.
constexpr std::chrono::seconds kChiefStops{10};

void check_saves(const TrainOptions& options, const char* call) {
  if (!options.model_dir.empty() && !checkpoint_cadence(options).never()) return;
  throw ConfigError(text(call, " was called in a run ",
                         options.model_dir.empty() ? "without a model directory."
                                                   : "whose checkpoints are switched off."),
                    "set --model-dir, and --save-every above 0, or leave the call out.");
}

}  // namespace

void DeferredStop::check() {
  const int signal = signal_.requested();
  if (signal == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (!since_) {
    since_ = now;
    log_info(signal_name(signal), ": training on until the chief ends training, at most ",
             kChiefStops.count(), " s.");
  }
  if (now - *since_ < kChiefStops) return;
  throw Stopped(text(signal_name(signal), ": this worker stopped; the chief continues without it."),
                "start it again to take part.", signal);
}

void StepBoundary::open(const DataIdentity& identity, const Clock& clock,
                        const Callbacks& callbacks, Checkpointer::OnSaved on_saved,
                        const DistributedSplits& data) {
  admission_.enter(identity);
  const bool joined = admission_.has_joined();
  if (options_.model_dir.empty()) {
    if (strategy_.pace().coordinates() && !joined) {
      copy_from(options_.warm_start, strategy_, state_);
    }
    if (callbacks.listeners.empty()) return;
    throw ConfigError("saving listeners were given, and nothing is saved without model_dir.",
                      "set model_dir, or leave the listeners out.");
  }
  if (!strategy_.pace().coordinates()) {
    deferred_stop_.emplace();
    return;
  }
  checkpoints_.emplace(strategy_, state_, identity, options_, clock, callbacks.listeners,
                       std::move(on_saved),
                       joined ? Checkpointer::Begin::under_way : Checkpointer::Begin::resume);
  leadership_.use(&*checkpoints_);
  const bool in_lockstep = strategy_.pace().voices() == strategy_.world_size();
  if (!callbacks.evaluate_together || !in_lockstep || strategy_.elastic() != nullptr ||
      strategy_.world_size() == 1) {
    return;
  }
  checkpoints_->use(
      [this, evaluate = callbacks.evaluate_together, &data](const SavedCheckpoint& saved) {
        evaluate(strategy_, state_, data, saved);
      });
}

void StepBoundary::begin(bool reached, bool watches_losses) {
  if (watches_losses) watch_.emplace();
  if (admission_.has_joined()) return;  // to one that is over nobody is admitted
  over_ = reached || leadership_.agree([&] { return flags({}); }).stop > 0;
}

void StepBoundary::take(StepReport report, std::vector<StepResult> results) {
  double sum = 0;
  for (const StepResult& result : results) {
    // Of several losses one may rise, as a generator's does.
    if (result.losses.size() > 1) watch_.reset();
    for (const auto& [name, loss] : result.losses) sum += loss.item<double>();
  }
  const bool is_finite = std::isfinite(sum);
  if (is_finite && watch_) watch_->add(sum);
  taken_ = {std::move(report), std::move(results), std::nullopt, is_finite, /*is_told=*/false};
}

const LossValues& StepBoundary::losses() {
  if (taken_.results.empty()) {
    throw ConfigError("losses() was called before the first step of the run.",
                      "call it after a step that returned true.");
  }
  if (!taken_.losses) taken_.losses = strategy_.reduce(taken_.results);
  return *taken_.losses;
}

bool StepBoundary::tell_step() {
  if (std::exchange(taken_.is_told, true)) return false;
  if (callbacks_.wants_losses(taken_.report.step)) (void)losses();
  taken_.report.losses = taken_.losses.value_or(LossValues());
  callbacks_.after_step(taken_.report, *this);
  return true;
}

void StepBoundary::check_losses() const {
  if (!watch_ || !watch_->has_diverged()) return;
  const DivergedError error(
      text("training has diverged: the loss was ", watch_->first(),
           " in the chief's first step, "
           "rose, and is ",
           watch_->last(), " in its last ones."),
      text("lower the learning rate or the momentum, or use --staleness-bound 0",
           options_.model_dir.empty() ? "." : ", and start again with an empty --model-dir."));
  if (options_.on_non_finite == OnNonFinite::fail) throw error;
  log_warning(error.what());
}

/// What this worker asks for.
StepFlags StepBoundary::flags(const Place& at) {
  StepFlags mine;
  mine.save = save_wished_ || (checkpoints_ && checkpoints_->has_best_to_save()) ||
              (at.after_step && checkpoints_ && checkpoints_->is_due());
  mine.stop = !stop_reason_.empty();
  mine.not_finite = !taken_.is_finite;
  mine.left = at.leaving;
  mine.at_end = at.after_step && state_.position.at_end;
  const int signal = checkpoints_ ? checkpoints_->stop_signal() : 0;
  bool is_of_all = signal != 0;
  if (Elasticity* const group = strategy_.elastic()) {
    // There a signal to one worker is its own affair, and the rendezvous knows who got it.
    const auto departure = group->departure(signal != 0);
    mine.depart = departure && departure->is_alone;
    mine.too_few = departure && !departure->is_alone && !departure->cause.empty();
    is_of_all = is_of_all && departure && !mine.depart && !mine.too_few;
    mine.admit = group->joiners_wait();
  }
  for (std::size_t i = 0; i < kStopSignals.size(); ++i)
    mine.signals[i] = is_of_all && signal == kStopSignals[i];
  return mine;
}

void StepBoundary::close(const Place& at) {
  const Traced traced("boundary");
  StepFlags mine;
  const StepFlags all = leadership_.agree([&] { return mine = flags(at); });
  const StepDecision decision = decide(all, at.last);
  carry_out(at, decision);
  if (over_ || !decision.admits) return;
  if (mine.depart > 0) depart();
  admission_.admit();
}

void StepBoundary::carry_out(const Place& at, const StepDecision& decision) {
  left_ = at.leaving;
  save_wished_ = false;
  taken_.is_finite = true;
  if (decision.not_finite) {
    end_by(NonFiniteError(text("the loss of step ", state_.step, " is not finite."),
                          "lower --learning-rate, or look for bad examples in the data."),
           state_.step - 1);
    return;
  }
  if (decision.signal != 0 || decision.too_few) end_early(decision);
  over_ = decision.is_over;
  if (decision.stops && strategy_.elastic() != nullptr) {
    // The leader that knows why may be lost before it has said so: then the next one finds out.
    (void)leadership_.agree([&] {
      for (const std::string& reason : strategy_.gather(stop_reason_))
        if (stop_reason_.empty()) stop_reason_ = reason;
      return flags({});
    });
  }
  if (deferred_stop_ && !over_) deferred_stop_->check();
  const bool saves = checkpoints_ && decision.saves;
  const std::int64_t every = options_.check_weights_every;
  const bool compares = at.after_step && every != 0 && state_.step % every == 0;
  // A save compares by itself.
  if (compares && !(saves && checkpoints_->has_to_save())) {
    check_weights(strategy_, state_, checkpoints_ ? checkpoints_->saved_step() : std::nullopt);
  }
  if (!saves) return;
  const auto which = over_ ? Checkpointer::Save::last : Checkpointer::Save::periodic;
  const StepFlags saved = leadership_.save(which, [&] {
    if (!over_ && checkpoints_->listener_stops()) request_stop("a saving listener asked for it");
    return flags({});
  });
  if (saved.stop > 0) over_ = true;
}

void StepBoundary::end_early(const StepDecision& decision) {
  if (checkpoints_)
    (void)leadership_.save(Checkpointer::Save::stopping, [] { return StepFlags(); });
  const bool saved = checkpoints_ && checkpoints_->saves();
  const std::string where = saved ? "; the state is saved in " + options_.model_dir + "." : "";
  if (decision.too_few) {
    const auto departure = strategy_.elastic()->departure(false);
    const std::string why = departure ? departure->cause : "too few workers are left.";
    throw PeerLost(
        text(why, " Training ended after step ", state_.step, where.empty() ? "." : where),
        "start the run again; with --model-dir it resumes from its newest checkpoint.");
  }
  const std::string cause =
      text(signal_name(decision.signal), ": all workers stopped after step ", state_.step);
  strategy_.pace().end(state_, cause);
  if (!saved) {
    throw Stopped(cause + "; checkpoints are switched off, so the state is lost.",
                  "set --save-every above 0.", decision.signal);
  }
  throw Stopped(cause + where, "start again with the same --model-dir to go on.", decision.signal);
}

/// This worker leaves an elastic group; the others call Admission::admit().
void StepBoundary::depart() {
  checkpoints_->wait();
  const int signal = checkpoints_->stop_signal();
  const std::string task = strategy_.view().tasks[static_cast<std::size_t>(strategy_.rank())];
  strategy_.elastic()->leave();
  throw Stopped(text(signal_name(signal), ": ", task, " left after step ", state_.step,
                     "; the others go on."),
                "to stop the whole run, signal troupe run.", signal);
}

void StepBoundary::end_by(const NonFiniteError& error, std::int64_t good) {
  if (options_.on_non_finite == OnNonFinite::fail) {
    strategy_.abort(error.what(), error.exit_code());
    throw error;
  }
  log_warning("training stops, nothing after step ", good, " is saved: ", error.what());
  request_stop("the loss or a gradient is not finite");
  over_ = spoiled_ = true;
}

void StepBoundary::request_save() {
  check_saves(options_, "save()");
  save_wished_ = true;
}

void StepBoundary::offer_best(const std::string& metric, double value, Better better) {
  check_saves(options_, "keep_best()");
  if (better == Better::unknown) {
    throw ConfigError(text("the best checkpoint by \"", metric,
                           "\" is asked for, and which of two "
                           "values is better is unknown."),
                      "say Better::lower or Better::higher.");
  }
  if (checkpoints_ && !spoiled_) checkpoints_->offer_best(metric, value, better);
}

void StepBoundary::request_stop(const std::string& reason) {
  if (stop_reason_.empty()) stop_reason_ = reason.empty() ? "an action asked for it" : reason;
}

std::string StepBoundary::finish(const TrainingLimits& limits) {
  std::string reason = stop_reason_;
  if (reason.empty() && limits.reached(state_)) reason = limits.reason(state_);
  if (reason.empty()) reason = left_ ? "the loop has ended it" : "another worker asked for it";
  // In lockstep it is saved already.
  if (checkpoints_ && !spoiled_) checkpoints_->save(Checkpointer::Save::last);
  strategy_.pace().end(state_, reason);
  return reason;
}

void StepBoundary::release() {
  if (checkpoints_ && spoiled_) {
    checkpoints_->finish();
  } else if (checkpoints_) {
    (void)leadership_.save(Checkpointer::Save::last, [&] {
      checkpoints_->finish();
      return StepFlags();
    });
  }
  leadership_.use(nullptr);
  checkpoints_.reset();
  deferred_stop_.reset();
}

}  // namespace troupe::detail
