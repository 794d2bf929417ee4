#include "troupe/train/training_run.h"

#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/sharing_failure.h"
#include "troupe/train/callback_list.h"
#include "troupe/train/epoch_reports.h"
#include "troupe/train/evaluate.h"
#include "troupe/train/example_checks.h"
#include "troupe/train/leadership.h"
#include "troupe/train/model_summary.h"
#include "troupe/train/run_record.h"
#include "troupe/train/schedule/averaged_weights.h"
#include "troupe/train/schedule/schedule.h"
#include "troupe/train/step_boundary.h"
#include "troupe/train/training_checks.h"
#include "troupe/train/training_limits.h"
#include "troupe/train/validation_watch.h"

namespace troupe {
namespace {

using Extent = detail::EpochReports::Extent;

/// Of the runs in one thread, and of the chiefs' in one process: signals, LibTorch's generators,
/// the strategy and the state serve one at a time. Workers of one group may be threads.
class OnlyRun {
 public:
  explicit OnlyRun(bool is_chief) : is_chief_(is_chief) {
    if (g_alive) {
      throw ConfigError("a training run was started before the previous one finished.",
                        "call finish() on the first one, or let it be destroyed.");
    }
    if (is_chief && g_has_chief.exchange(true)) {
      throw ConfigError(
          "a training run was started while another thread of this process trains: "
          "both would draw from the same generators.",
          "train one after the other, or each in a process of its own.");
    }
    g_alive = true;
  }
  ~OnlyRun() {
    g_alive = false;
    if (is_chief_) g_has_chief = false;
  }
  OnlyRun(const OnlyRun&) = delete;
  OnlyRun& operator=(const OnlyRun&) = delete;
  /// An exception that was thrown since is on its way.
  [[nodiscard]] bool is_thrown() const { return std::uncaught_exceptions() > exceptions_; }

 private:
  static thread_local bool g_alive;
  static std::atomic<bool> g_has_chief;
  const bool is_chief_;
  const int exceptions_ = std::uncaught_exceptions();
};
thread_local bool OnlyRun::g_alive = false;
std::atomic<bool> OnlyRun::g_has_chief = false;

enum class Life { running, failed, finished };

void log_end(Outbox& outbox, std::int64_t step, const History& history) {
  const double rate = static_cast<double>(history.examples) / std::max(history.seconds, 1e-9);
  const std::string line =
      text("training ends at step ", step, ": ", history.reason, " (", history.examples,
           " examples in ", history.seconds, " s, ", std::lround(rate), " examples/sec)",
           detail::to_line(history.waiting));
  if (!outbox.leads()) log_debug(line);
  outbox.add([line](bool /*again*/) { log_info(line); });
}

Outbox::Role role_of(Strategy& strategy) {
  if (strategy.is_chief()) return Outbox::Role::leader;
  return strategy.elastic() != nullptr ? Outbox::Role::follower : Outbox::Role::silent;
}

[[noreturn]] void refuse_verb(Life life) {
  if (life == Life::finished) {
    throw ConfigError("a verb of a finished training run was called.",
                      "make another TrainingRun to train on.");
  }
  throw ConfigError("a verb of a failed training run was called.",
                    "let the exception of the verb that failed end the program.");
}

/// A batch that the loop has made; `replicas` of this worker.
void check_made(const DistributedBatch& batch, std::size_t replicas) {
  const bool whole =
      std::all_of(batch.replicas.begin(), batch.replicas.end(), [&](const Batch& each) {
        return !each.fields.empty() && each.global_examples == batch.global_examples;
      });
  if (whole && batch.global_examples > 0 && batch.replicas.size() == replicas) return;
  throw ConfigError(
      text("a batch of the loop's own is not complete: ", batch.replicas.size(), " replicas, ",
           batch.global_examples, " examples over all workers."),
      text("give it the fields of this worker's ", replicas,
           replicas == 1 ? " replica" : " replicas",
           ", and in each and in the batch itself global_examples, which all workers add up to."));
}

void print_summary(Replica& replica) {
  (void)detail::print_text(summary_table(parameter_rows(replica)) + optimizer_lines(replica));
}

/// A batch that the loop has made, too, is one of the data's steps: where those end, so does the
/// epoch, and with the last one training.
void check_place(const DistributedBatch& batch, const DataPosition& next,
                 const std::optional<std::int64_t>& steps) {
  if (steps && batch.step >= *steps) {
    throw ConfigError(
        text("step ", batch.step, " of epoch ", batch.epoch,
             " was given to the run, whose training data has ", *steps,
             " steps an epoch, counted from 0."),
        "number batches of the loop's own below that, or return a training split with "
        "as many steps as the loop takes from create_datasets.");
  }
  if (batch.epoch > next.epoch || (batch.epoch == next.epoch && batch.step >= next.step)) return;
  throw ConfigError(
      text("step ", batch.step, " of epoch ", batch.epoch, " was given to the run a second time."),
      "a batch is one step: make both updates in one step function, or alternate from batch to "
      "batch.");
}

}  // namespace

class TrainingRun::Impl final : public detail::TrainingEpochs {
 public:
  Impl(Strategy& strategy, const Hooks& hooks, TrainState& state, const DistributedSplits& data,
       const TrainOptions& options, Callbacks callbacks);
  ~Impl();

  /// Runs the body of a verb: what it throws ends the run, and the group is told.
  template <class Body>
  auto verb(Body&& body) {
    if (life_ != Life::running) refuse_verb(life_);
    try {
      leadership_.follow();
      return detail::sharing_failure(strategy_, body);
    } catch (...) {
      life_ = Life::failed;
      record_.failed(state_.step);
      throw;
    }
  }
  [[nodiscard]] detail::TrainingEpoch* next() override;
  bool step(const DistributedBatch& batch, const Step& step);
  std::optional<Report> validate();
  History finish();

 private:
  friend class TrainingRun;
  class Reader;

  void leave_epoch();
  void close_step();

  /// The epoch under way, as the loop sees it.
  class Reader final : public detail::TrainingEpoch {
   public:
    explicit Reader(Impl& run) : run_(run) {}
    [[nodiscard]] std::int64_t number() const override { return run_.reports_.epoch(); }
    [[nodiscard]] const DistributedBatch* next() override {
      return run_.verb([&] { return read(); });
    }
    std::optional<Epoch> batches;  // unset: closed

   private:
    [[nodiscard]] const DistributedBatch* read();

    Impl& run_;
  };

  Strategy& strategy_;
  std::optional<OnlyRun> only_{std::in_place, strategy_.is_chief()};
  const Hooks& hooks_;
  TrainState& state_;
  const DistributedSplits data_;
  const TrainOptions options_;
  Outbox outbox_;
  detail::CallbackList callbacks_;
  detail::RunRecord record_;  // before boundary_, whose saves it records
  detail::Leadership leadership_;
  detail::Admission admission_{strategy_, state_};
  detail::StepBoundary boundary_;
  detail::EpochReports reports_;
  std::optional<detail::TrainingLimits> limits_;
  std::optional<LearningRateSchedule> schedule_;
  Reader reader_{*this};
  detail::ValidationWatch watch_;
  Life life_ = Life::running;
};

TrainingRun::Impl::Impl(Strategy& strategy, const Hooks& hooks, TrainState& state,
                        const DistributedSplits& data, const TrainOptions& options,
                        Callbacks callbacks)
    : strategy_(strategy),
      hooks_(hooks),
      state_(state),
      data_(data),
      options_(options),
      outbox_(role_of(strategy)),
      callbacks_(strategy, options_, outbox_, std::move(callbacks.actions)),
      record_(strategy, options_, outbox_),
      leadership_(strategy, outbox_,
                  {[this] {
                     if (strategy_.elastic() == nullptr) return;
                     for (const GroupChange& change : strategy_.elastic()->take_changes())
                       record_.changed(state_.step, change);
                   },
                   [this] { callbacks_.lead(steady_clock(), boundary_); }}),
      boundary_(strategy, state, options_, callbacks_, leadership_, admission_),
      reports_(strategy, state, steady_clock()),
      watch_(options_, state, !callbacks.evaluates_checkpoints) {
  // Before a checkpoint is restored: the rates are create_model's still, and whether averages are
  // kept decides what is taken out of it.
  const RateFactor& factor = callbacks.rate_factor;
  if (factor || is_scheduled(options_.schedule)) {
    detail::remember_rates(state);
  } else {
    detail::forget_rates(state);
  }
  keep_averages(state, options_.ema_decay);

  Pace& pace = strategy.pace();
  const Pace::Counts counts = pace.counts(*data_.train);
  boundary_.open(identity_of(*data_.train, options_, counts.updates_per_step), steady_clock(),
                 callbacks, record_.on_saved(), data_);
  limits_.emplace(options_, admission_.began_at(), counts);
  if (factor) {
    schedule_.emplace(factor, state_);
  } else if (is_scheduled(options_.schedule)) {
    schedule_.emplace(options_.schedule, state_, limits_->last_step());
  }
  if (state_.averages && strategy_.is_chief()) {
    log_info("evaluations use averaged weights, --ema-decay ", options_.ema_decay);
  }
  const detail::StepRange range{admission_.began_at(), limits_->last_step(), data_.train->unit()};
  callbacks_.complete(range, steady_clock(), admission_.has_joined());
  if (admission_.has_joined()) record_.join();
  const bool reached = pace.coordinates() && limits_->reached(state_);
  outbox_.repeat(state_.step > 0);
  pace.start(state_, *data_.train, limits_->last_step());
  if (state_.position.step == data_.train->steps_per_epoch()) state_.position.at_end = true;
  // Synchronous training that diverges does so on one device, too, where nobody judges it either.
  const bool asynchronous = counts.updates_per_step > 1;
  const bool watches_losses = asynchronous && pace.coordinates() && state_.step == 0;
  if (options_.summary && strategy_.is_chief()) print_summary(*state_.replicas.front());
  if (!reached && state_.step == 0 && !admission_.has_joined()) {
    const auto seen = detail::look_at_examples(strategy_, hooks_, state_, data_);
    if (seen && schedule_) schedule_->check(*seen);
    if (seen && watch_.is_on()) watch_.check(*seen);
  }
  if (!reached || reports_.is_untold()) callbacks_.ready(boundary_);
  boundary_.begin(reached, watches_losses);
  // But for its last epoch's end.
  const bool over = boundary_.is_over() || (pace.coordinates() && limits_->is_last(state_));
  if (!over && !admission_.has_joined())
    record_.start(strategy_, state_, limits_->last_step(), data_.train->unit());
  if (strategy.elastic() != nullptr) strategy.elastic()->start();
}

/// Where the loop continues after a step.
void TrainingRun::Impl::close_step() {
  if (!boundary_.tell_step()) return;
  boundary_.close({true, strategy_.pace().coordinates() && limits_->is_last(state_)});
}

TrainingRun::Impl::~Impl() {
  if (life_ != Life::running) return;
  const bool thrown = only_->is_thrown();
  const std::string who = text("rank ", strategy_.rank(), " left its training loop ");
  const std::string what =
      thrown ? who + "by an exception; its own output says which."
             : who + "without finish(). Fix: call run.finish() after the loop, also after a break.";
  strategy_.abort(what, kExitFailed);
  record_.left(state_.step, thrown ? "an exception left the training loop" : what);
  if (!thrown) detail::leave_undone(what);
}

detail::TrainingEpoch* TrainingRun::Impl::next() {
  return verb([&]() -> detail::TrainingEpoch* {
    leave_epoch();
    if (boundary_.is_over() && !reports_.is_untold()) return nullptr;
    reports_.begin(state_.position.epoch);
    reader_.batches.emplace(data_.train->epoch(state_.position));
    return &reader_;
  });
}

const DistributedBatch* TrainingRun::Impl::Reader::read() {
  const Pace& pace = run_.strategy_.pace();
  run_.close_step();
  const auto wait = [&] {
    const Traced traced("wait for batch");
    return batches->next();
  };
  while (batches && !run_.boundary_.is_over()) {
    const DistributedBatch* const batch = wait();
    if (batch == nullptr) break;
    if (pace.examples_of(*batch)) return batch;
    run_.state_.position = run_.data_.train->after(*batch);  // it is another worker's
  }
  batches.reset();
  run_.reports_.close(run_.boundary_.is_over() ? Extent::part : Extent::complete);
  return nullptr;
}

/// A step begun and not taken would stall parameter servers' other workers, so the call is checked
/// before it begins.
bool TrainingRun::Impl::step(const DistributedBatch& batch, const Step& step) {
  check_place(batch, state_.position, data_.train->steps_per_epoch());
  if (batch.source == nullptr && strategy_.virtual_replicas() == 0) {
    check_made(batch, state_.replicas.size());
  }
  close_step();
  if (boundary_.is_over()) return false;
  // Epochs of a loop over the data itself; the state may stand at the end of the one before.
  if (!reports_.is_begun()) reports_.begin(state_.position.epoch);
  if (reports_.epoch() != batch.epoch) {
    leave_epoch();
    if (boundary_.is_over()) return false;
    reports_.begin(batch.epoch);
  }
  Pace& pace = strategy_.pace();
  const auto examples = pace.examples_of(batch);
  if (!examples) {  // another worker's: only a loop over the data itself has them
    state_.position = data_.train->after(batch);
    return false;
  }
  const auto number = pace.next_step(state_);
  if (!number) {
    const bool by_limit = pace.coordinates() && limits_->reached(state_);
    if (!by_limit) boundary_.request_stop(state_.ended);
    boundary_.end();
    return false;
  }
  if (schedule_) schedule_->apply(*number);
  callbacks_.before_step(boundary_);
  const detail::FieldMemory memory(batch);
  std::vector<StepResult> results;
  try {
    results = strategy_.run(step, state_, batch);
    detail::to_host(results);
  } catch (const NonFiniteError& error) {  // raised on all workers alike, before the update
    boundary_.end_by(detail::at_its_root(error, strategy_, state_, batch), state_.step);
    return false;
  }
  // A loop may run two step functions in turn.
  if (reports_.history().steps < 2) memory.check();
  detail::check_step(state_, results, /*is_first=*/state_.step == 0);
  if (state_.averages) update_averages(state_);
  outbox_.repeat(false);
  state_.step = *number;
  state_.position = data_.train->after(batch);
  reports_.add(results, *examples);
  StepReport report{*number, batch.epoch, *examples, {}};
  if (schedule_) report.learning_rate = schedule_->rate();
  boundary_.take(std::move(report), std::move(results));
  return true;
}

/// The boundary between two epochs. One that was left by break is over, whatever was read of it.
void TrainingRun::Impl::leave_epoch() {
  if (!reports_.is_begun()) return;
  const bool stepped = boundary_.tell_step();
  reader_.batches.reset();
  reports_.close(boundary_.is_over() ? Extent::part : Extent::left);
  callbacks_.after_epoch(reports_.epoch(), *reports_.history().train, reports_.validation());
  reports_.leave();
  if (boundary_.is_over()) return;
  boundary_.close({stepped, strategy_.pace().coordinates() && limits_->reached(state_)});
}

std::optional<Report> TrainingRun::Impl::validate() {
  const bool plateau = options_.schedule.kind == Schedule::plateau;
  if (!data_.validation || !(plateau || watch_.is_on()) || !strategy_.pace().coordinates())
    return std::nullopt;
  callbacks_.before_validation();
  strategy_.pace().collect(state_);
  const Report report = evaluate(strategy_, hooks_, state_, *data_.validation, Phase::validation);
  reports_.validated(report);
  // A part of an epoch is validated where a run ends, and not where it continues.
  const bool complete = reports_.is_complete();
  if (plateau && complete && state_.plateau.observed_epoch != reports_.epoch()) {
    schedule_->observe(report);
    state_.plateau.observed_epoch = reports_.epoch();
  }
  if (!watch_.is_on()) return report;
  if (const auto best = watch_.best(report)) {
    boundary_.offer_best(options_.best->metric, best->value, best->better);
  }
  if (boundary_.is_over())
    return report;  // where training is to continue, nothing is to have ended
  if (const auto reason = watch_.stop_reason(report)) boundary_.request_stop(*reason);
  return report;
}

History TrainingRun::Impl::finish() {
  const bool stepped = boundary_.tell_step();
  if (!boundary_.is_over()) {
    boundary_.close({stepped, /*last=*/true, /*leaving=*/true});
  } else if (reports_.is_untold()) {  // to a loop of its own kind, which asked for no epoch
    reports_.begin(state_.position.epoch);
  }
  reader_.batches.reset();
  reports_.close(Extent::part);
  History& history = reports_.history();
  if (reports_.is_begun()) {
    callbacks_.after_epoch(reports_.epoch(), *history.train, reports_.validation());
  }
  history.reason = boundary_.finish(*limits_);
  history.waiting = boundary_.waiting();
  log_end(outbox_, state_.step, history);
  if (history.steps == 0) {
    log_warning(state_.step == 0 ? "training took no step."
                                 : "nothing to train: raise --max-steps or --epochs, or use "
                                   "another --model-dir, to train on.");
  }
  boundary_.release();
  callbacks_.end(boundary_);
  boundary_.check_losses();
  strategy_.synchronize_buffers(state_);
  record_.ended(state_.step, history, strategy_.pace().facts());
  if (strategy_.elastic() != nullptr) {
    (void)leadership_.agree([] { return detail::StepFlags(); });
    strategy_.elastic()->end();
  }
  history.on_chief = strategy_.is_chief() && strategy_.pace().coordinates();
  callbacks_.close();
  life_ = Life::finished;
  only_.reset();
  return std::move(history);
}

TrainingRun::TrainingRun(Strategy& strategy, const Hooks& hooks, TrainState& state,
                         const DistributedSplits& data, const TrainOptions& options,
                         Callbacks callbacks) {
  detail::sharing_failure(strategy, [&] {
    detail::check_training(strategy, state, data, options, callbacks);
    impl_ = std::make_unique<Impl>(strategy, hooks, state, data, options, std::move(callbacks));
  });
}

TrainingRun::~TrainingRun() = default;

detail::TrainingEpochs& TrainingRun::epochs() { return *impl_; }

bool TrainingRun::train_step(const DistributedBatch& batch) {
  return step(batch, [&hooks = impl_->hooks_](Replica& replica, const Batch& own) {
    return hooks.train_step(replica, own);
  });
}

bool TrainingRun::step(const DistributedBatch& batch, const Step& step) {
  return impl_->verb([&] { return impl_->step(batch, step); });
}

const LossValues& TrainingRun::losses() {
  return *impl_->verb([&] { return &impl_->boundary_.losses(); });
}

std::optional<Report> TrainingRun::validate() {
  return impl_->verb([&] { return impl_->validate(); });
}

void TrainingRun::log(const std::string& name, double value) {
  impl_->verb([&] {
    if (!impl_->outbox_.may_lead()) return;
    impl_->callbacks_.after_log(impl_->state_.step, impl_->reports_.epoch(), name, value);
  });
}

Recorder& TrainingRun::recorder() {
  return *impl_->verb([&] {
    Recorder& recorder = impl_->state_.replicas.front()->recorder();
    recorder.listen(/*listens=*/true, /*prefix=*/"");
    return &recorder;
  });
}

double& TrainingRun::keep(const std::string& name, double initial) {
  return *impl_->verb([&] { return &impl_->state_.kept.emplace(name, initial).first->second; });
}

void TrainingRun::keep_best(const std::string& metric, double value, Better better) {
  impl_->verb([&] { impl_->boundary_.offer_best(metric, value, better); });
}

void TrainingRun::save() {
  impl_->verb([&] { impl_->boundary_.request_save(); });
}

void TrainingRun::stop(const std::string& reason) {
  impl_->verb(
      [&] { impl_->boundary_.request_stop(reason.empty() ? "the loop asked for it" : reason); });
}

History TrainingRun::finish() {
  return impl_->verb([&] { return impl_->finish(); });
}

std::int64_t TrainingRun::step_number() const { return impl_->state_.step; }

bool TrainingRun::is_over() const { return impl_->boundary_.is_over(); }

}  // namespace troupe
