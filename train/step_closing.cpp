#include "troupe/train/step_closing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "troupe/core/log.h"
#include "troupe/core/options/checkpoint_cadence.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/train/checkpoint/warm_start.h"

namespace troupe::detail {
namespace {

// For the chief, which got the same signal, to save and end training for all.
constexpr std::chrono::seconds kChiefStops{10};
constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t step_limit(const TrainOptions& options, std::int64_t began_at) {
  if (!options.steps) return options.max_steps.value_or(kNoLimit);
  return *options.steps > kNoLimit - began_at ? kNoLimit : began_at + *options.steps;
}

/// What only some of all workers do. A loop that they have left would have the others wait for
/// steps that do not come. Streams are read by each worker for itself: one that ends earlier is
/// another one.
void check_all_alike(const Wishes& agreed, int workers) {
  const auto are_some = [&](int count) { return count != 0 && count != workers; };
  if (are_some(agreed.leaving)) {
    throw DesyncError(text(agreed.leaving, " of ", workers,
                           " workers left the training loop, and the others continue."),
                      "leave a loop on all workers at the same place, for a reason that all have; "
                      "what one alone wants is run.stop().");
  }
  if (are_some(agreed.at_end)) {
    throw DesyncError(
        text("the epoch ends here on ", agreed.at_end, " of ", workers,
             " workers, and the others continue."),
        "give every worker the same stream: the same files, and blocks that depend on their "
        "number alone.");
  }
}

void check_saves(const TrainOptions& options, const char* call) {
  if (!options.model_dir.empty() && !checkpoint_cadence(options).never()) return;
  throw ConfigError(text(call, " was called in a run ",
                         options.model_dir.empty() ? "without a model directory."
                                                   : "whose checkpoints are switched off."),
                    "set --model-dir, and --save-every above 0, or leave the call out.");
}

}  // namespace

TrainingLimits::TrainingLimits(const TrainOptions& options, std::int64_t began_at,
                               const Pace::Counts& counts)
    : updates_per_epoch_(counts.updates_per_epoch),
      epochs_(options.epochs.value_or(options.max_steps || options.steps ? kNoLimit : 1)),
      steps_(step_limit(options, began_at)),
      relative_(options.steps.has_value()),
      ends_by_place_(counts.ends_by_place) {}

bool TrainingLimits::reached(const TrainState& state) const {
  if (!ends_by_place_) return state.step >= last_step();
  return state.position.epoch >= epochs_ || state.step >= steps_;
}

bool TrainingLimits::is_last(const TrainState& state) const {
  if (!ends_by_place_) return reached(state);
  return state.step >= steps_ || (state.position.at_end && state.position.epoch + 1 >= epochs_);
}

std::int64_t TrainingLimits::last_step() const {
  if (!updates_per_epoch_) return steps_;
  return epochs_ > steps_ / *updates_per_epoch_ ? steps_
                                                : std::min(steps_, epochs_ * *updates_per_epoch_);
}

std::string TrainingLimits::reason(const TrainState& state) const {
  if (state.step >= steps_) return text(relative_ ? "step " : "max_steps ", steps_, " is reached");
  const std::string of = steps_ == kNoLimit ? "" : text(" of max_steps ", steps_);
  return text("the data has ended: epochs = ", epochs_, ", step = ", state.step, of);
}

void StepClosing::open(const DataIdentity& identity, const Clock& clock, const Callbacks& callbacks,
                       Checkpointer::OnSaved on_saved, const DistributedSplits& data) {
  admission_.enter(identity);
  if (options_.model_dir.empty()) {
    if (strategy_.pace().coordinates() && !admission_.has_joined()) {
      copy_from(options_.warm_start, strategy_, state_);
    }
    if (callbacks.listeners.empty()) return;
    throw ConfigError("saving listeners were given, and nothing is saved without model_dir.",
                      "set model_dir, or leave the listeners out.");
  }
  if (!strategy_.pace().coordinates()) {
    held_signal_.emplace();
    return;
  }
  const bool joined = admission_.has_joined();
  checkpoints_.emplace(strategy_, state_, identity, options_, clock, callbacks.listeners,
                       std::move(on_saved),
                       joined ? Checkpointer::Begin::under_way : Checkpointer::Begin::resume);
  if (joined) (void)checkpoints_->take_over(admission_.saved_step(), /*tells=*/false);
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

void StepClosing::begin(bool reached, bool watches_losses) {
  if (watches_losses) watch_.emplace();
  if (admission_.has_joined()) return;  // to one that is over nobody is admitted
  over_ = reached || agree(strategy_, {false, !stop_reason_.empty()}).stop;
}

void StepClosing::take(const std::vector<StepResult>& results) {
  double sum = 0;
  for (const StepResult& result : results) {
    // Of several losses one may rise, as a generator's does.
    if (result.losses.size() > 1) watch_.reset();
    for (const auto& [name, loss] : result.losses) sum += loss.item<double>();
  }
  if (!std::isfinite(sum)) {
    loss_not_finite_ = true;
  } else if (watch_) {
    watch_->add(sum);
  }
}

void StepClosing::check_losses() const {
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

Wishes StepClosing::wishes(const Boundary& at) {
  Wishes mine;
  mine.save = save_wished_ || (at.after_step && checkpoints_ && checkpoints_->is_due());
  mine.stop = !stop_reason_.empty();
  early_end_.wish(mine, checkpoints_ ? checkpoints_->stop_signal() : 0);
  mine.loss_not_finite = loss_not_finite_;
  mine.leaving = at.leaving;
  if (checkpoints_) EarlyEnd::wish_for_chief(mine, strategy_.is_chief(), *checkpoints_);
  mine.admit = admission_.is_wished();
  mine.at_end = at.after_step && state_.position.at_end;
  return mine;
}

void StepClosing::close(const Boundary& at) {
  const Traced traced("boundary");
  Wishes mine;
  const Wishes agreed = meeting_.agree([&] { return mine = wishes(at); });
  carry_out(at, agreed);
  if (over_) return;
  if (mine.quitting > 0) early_end_.leave(*checkpoints_);
  if (agreed.admit || agreed.quitting > 0)
    admission_.admit(checkpoints_ ? checkpoints_->saved_step() : std::nullopt);
}

void StepClosing::carry_out(const Boundary& at, const Wishes& agreed) {
  check_all_alike(agreed, strategy_.pace().voices());
  const bool save_was_lost = agreed.save_anew && checkpoints_ &&
                             checkpoints_->take_over(newest_of(agreed), /*tells=*/true);
  left_ = at.leaving;
  loss_not_finite_ = save_wished_ = false;
  if (agreed.loss_not_finite) {
    end_by(NonFiniteError(text("the loss of step ", state_.step, " is not finite."),
                          "lower --learning-rate, or look for bad examples in the data."),
           state_.step - 1);
    return;
  }
  if (EarlyEnd::is_of_all(agreed))
    early_end_.end_all(agreed, checkpoints_ ? &*checkpoints_ : nullptr);
  over_ = agreed.stop || at.last;
  if (agreed.stop && strategy_.elastic() != nullptr) {
    // The chief that knows why training ends may be lost before it has said so: then the next one
    // finds out.
    std::string reason;
    for (int tries = 0; tries < 2 && reason.empty(); ++tries) {
      if (tries > 0) meeting_.follow();
      for (const std::string& each : strategy_.gather(stop_reason_))
        if (reason.empty()) reason = each;
    }
    if (stop_reason_.empty()) stop_reason_ = reason;
  }
  if (held_signal_ && !over_) await_chief_stop();
  const bool saves = checkpoints_ && (agreed.save || save_was_lost || over_);
  const std::int64_t every = options_.check_weights_every;
  const bool compares = at.after_step && every != 0 && state_.step % every == 0;
  // A save compares by itself.
  if (compares && !(saves && checkpoints_->has_to_save())) {
    check_weights(strategy_, state_, Compared::weights,
                  checkpoints_ ? checkpoints_->saved_step() : std::nullopt);
  }
  if (!saves) return;
  const auto wish = [this](Wishes& mine) {
    if (!over_ && checkpoints_->listener_stops()) request_stop("a saving listener asked for it");
    mine.stop = !stop_reason_.empty();
  };
  const auto which = over_ ? Checkpointer::Save::last : Checkpointer::Save::periodic;
  if (early_end_.save(*checkpoints_, which, wish).stop > 0) over_ = true;
}

void StepClosing::end_by(const NonFiniteError& error, std::int64_t good) {
  if (options_.on_non_finite == OnNonFinite::fail) {
    strategy_.abort(error.what(), error.exit_code());
    throw error;
  }
  log_warning("training stops, nothing after step ", good, " is saved: ", error.what());
  request_stop("the loss or a gradient is not finite");
  over_ = spoiled_ = true;
}

void StepClosing::await_chief_stop() {
  const int signal = held_signal_->requested();
  if (signal == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (!signalled_at_) {
    signalled_at_ = now;
    log_info(signal_name(signal), ": training on until the chief ends training, at most ",
             kChiefStops.count(), " s.");
  }
  if (now - *signalled_at_ < kChiefStops) return;
  throw Stopped(text(signal_name(signal), ": this worker stopped; the chief continues without it."),
                "start it again to take part.", signal);
}

void StepClosing::request_save() {
  check_saves(options_, "save()");
  save_wished_ = true;
}

void StepClosing::offer_best(const std::string& metric, double value, Better better) {
  check_saves(options_, "keep_best()");
  if (better == Better::unknown) {
    throw ConfigError(text("the best checkpoint by \"", metric,
                           "\" is asked for, and which of two "
                           "values is better is unknown."),
                      "say Better::lower or Better::higher.");
  }
  // At its own pace the chief alone saves.
  if (checkpoints_ && !spoiled_ && checkpoints_->offer_best(metric, value, better)) {
    save_wished_ = true;
  }
}

void StepClosing::request_stop(const std::string& reason) {
  if (stop_reason_.empty()) stop_reason_ = reason.empty() ? "an action asked for it" : reason;
}

void StepClosing::finish(const TrainingLimits& limits) {
  // In lockstep it is saved already.
  if (checkpoints_ && !spoiled_) checkpoints_->save(Checkpointer::Save::last);
  strategy_.pace().end(state_, reason(limits));
}

void StepClosing::release() {
  // A chief that is lost while it writes the last checkpoint, or evaluates it, leaves that to the
  // next one.
  if (checkpoints_ && !spoiled_ && strategy_.elastic() != nullptr) {
    do {
      (void)early_end_.save(*checkpoints_, Checkpointer::Save::last);
      checkpoints_->finish();
    } while (early_end_.follow_chief(*checkpoints_));
  } else if (checkpoints_) {
    checkpoints_->finish();
  }
  checkpoints_.reset();
  held_signal_.reset();
}

std::string StepClosing::reason(const TrainingLimits& limits) const {
  if (!stop_reason_.empty()) return stop_reason_;
  if (limits.reached(state_)) return limits.reason(state_);
  return left_ ? "the loop has ended it" : "another worker asked for it";
}

}  // namespace troupe::detail
