#include "train/loop.h"

#include <cmath>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "hooks/replica_driver.h"
#include "strategies/shared_failure.h"
#include "train/agreement.h"
#include "train/checkpoint/checkpointer.h"
#include "train/evaluate.h"
#include "train/learning/averaged_weights.h"
#include "train/learning/schedule_factor.h"
#include "train/limits.h"
#include "train/stock_actions.h"

namespace troupe {
namespace {

void check(const DistributedSplits& data, const TrainOptions& options) {
  options.validate();
  if (!data.train || data.train->steps_per_epoch() == 0) {
    throw ConfigError("there is no training data.",
                      "return a training split with examples from create_datasets.");
  }
  if (options.steps && options.max_steps) {
    throw ConfigError("steps and max_steps are both given.",
                      "keep max_steps, the last step of the whole training, or steps, how many "
                      "more.");
  }
  if ((options.steps && *options.steps < 1) || (options.max_steps && *options.max_steps < 1)) {
    throw ConfigError("steps or max_steps is below 1.", "give a number of at least 1.");
  }
}

/// Throws: ConfigError where learning rates or averages cannot be what is asked for.
void check_learning(const DistributedSplits& data, const TrainOptions& options,
                    const RateFactor& factor) {
  validate(options.schedule);
  const bool plateau = options.schedule.kind == Schedule::plateau;
  if (factor && is_scheduled(options.schedule)) {
    throw ConfigError("the options and the companions both bring a learning rate schedule.",
                      "leave --lr-schedule and --warmup-steps out, or Companions::rate_factor.");
  }
  if (plateau && !data.validation) {
    throw ConfigError("--lr-schedule plateau has no validation to look at.",
                      "return a validation split from create_datasets, or use another schedule.");
  }
}

/// Throws: ConfigError for options that training at this pace cannot carry out.
void check_pace(const Pace& pace, const TrainOptions& options) {
  if (options.ema_decay > 0) pace.require(Pace::Need::every_update, "--ema-decay");
  if (options.schedule.kind == Schedule::plateau) {
    pace.require(Pace::Need::shared_validation, "the plateau schedule");
  }
  if (options.schedule.kind == Schedule::cosine && options.schedule.decay_steps == 0 && options.steps) {
    pace.require(Pace::Need::last_step, "the cosine schedule with steps");
  }
}

/// One call of train(): what it runs on, and what it came to so far.
class Training final : public RunControl {
 public:
  Training(Strategy& strategy, const Hooks& hooks, TrainState& state, const DistributedSplits& data,
           const TrainOptions& options, Companions companions)
      : strategy_(strategy),
        hooks_(hooks),
        state_(state),
        data_(data),
        options_(options),
        pace_(strategy.pace()),
        counts_(pace_.counts(*data.train)),
        step_([&hooks](Replica& replica, const Batch& batch) {
          return hooks.train_step(replica, batch);
        }),
        given_(std::move(companions.actions)) {
    for (const auto& action : given_) {
      if (strategy.is_chief() || !action->chief_only()) actions_.push_back(action);
    }
    for (auto& action : actions_) action->begin();
    prepare_learning(companions.rate_factor);
    if (options.model_dir.empty()) {
      if (!companions.listeners.empty()) {
        throw ConfigError("saving listeners were given, and nothing is saved without model_dir.",
                          "set model_dir, or leave the listeners out.");
      }
    } else if (pace_.coordinates()) {
      const DataIdentity identity{data.train->examples(), options.batch_size, options.seed,
                                  counts_.updates_per_step};
      checkpoints_.emplace(strategy, state, identity, options, clock_,
                           std::move(companions.listeners));
    }
    limits_.emplace(options, state, counts_);
    make_schedule(companions.rate_factor);
  }

  History run() {
    start();
    while (!ended_) {
      const auto start = clock_.now();
      run_steps();
      report_epoch(Seconds(clock_.now() - start).count());
      if (pace_.coordinates() && limits_->reached(state_)) ended_ = true;
    }
    settle_for_all();
    log_info("training ends at step ", state_.step, ": ", reason());
    if (history_.steps == 0) log_warning("training took no step.");
    if (checkpoints_) checkpoints_->finish();
    if (ready_) {
      for (auto& action : actions_) action->end(*this);
    }
    strategy_.synchronize_buffers(state_);
    history_.reason = reason();
    return std::move(history_);
  }

  [[nodiscard]] std::int64_t step() const override { return state_.step; }
  [[nodiscard]] bool is_chief() const override { return strategy_.is_chief(); }
  [[nodiscard]] Replica& replica() override { return *state_.replicas.front(); }
  [[nodiscard]] const WeightAverages* averages() const override {
    return state_.averages ? &*state_.averages : nullptr;
  }
  void request_stop(const std::string& reason) override {
    if (stop_reason_.empty()) stop_reason_ = reason.empty() ? "an action asked for it" : reason;
  }

 private:
  /// Before a checkpoint is restored: the rates are create_model's still, and whether averages are
  /// kept decides what is taken out of it.
  void prepare_learning(const RateFactor& factor) {
    check_learning(data_, options_, factor);
    if (factor || is_scheduled(options_.schedule)) {
      detail::remember_rates(state_);
    } else {
      detail::forget_rates(state_);
    }
    keep_averages(state_, options_.ema_decay);
  }

  void make_schedule(const RateFactor& factor) {
    if (factor) {
      schedule_.emplace(factor, state_);
    } else if (is_scheduled(options_.schedule)) {
      schedule_.emplace(options_.schedule, state_, limits_->last_step());
    }
    if (state_.averages && is_chief()) {
      log_info("evaluations use averaged weights, --ema-decay ", options_.ema_decay);
    }
  }

  void start() {
    if (is_chief()) {
      const Actions stock =
          detail::stock_actions(options_, {state_.step, limits_->last_step()}, clock_);
      for (const auto& action : stock) action->begin();
      actions_.insert(actions_.begin(), stock.begin(), stock.end());
    }
    check_same_actions();
    ended_ = pace_.coordinates() && limits_->reached(state_);
    pace_.start(state_, *data_.train, limits_->last_step());
    if (ended_) return;
    seen_step_ = state_.step;
    first_step_ = seen_step_ + 1;
    for (auto& action : actions_) action->ready(*this);
    ready_ = true;
    ended_ = detail::agree(strategy_, {false, wants_stop()}).stop;
  }

  /// An action that only some workers have would make them exchange different messages.
  void check_same_actions() {
    const auto counts = strategy_.gather(text(given_.size()));
    for (std::size_t rank = 1; rank < counts.size(); ++rank) {
      if (counts[rank] == counts[0]) continue;
      throw ConfigError(
          text("rank ", rank, " has ", counts[rank], " actions, the chief ", counts[0], "."),
          "give every worker the same list; chief_only() says who acts.");
    }
  }

  /// The steps of the epoch that are left, as far as limits and stop requests allow.
  void run_steps() {
    for (const DistributedBatch& batch :
         data_.train->epoch(state_.position.epoch, state_.position.step)) {
      if (!pace_.examples_of(batch)) {
        ++state_.position.step;
        continue;
      }
      const auto number = pace_.next_step(state_);
      if (!number) {
        if (!pace_.coordinates() || !limits_->reached(state_)) request_stop(state_.ended);
        ended_ = true;
        return;
      }
      if (schedule_) schedule_->apply(*number);
      for (auto& action : actions_) action->before_step(*this);
      try {
        take_step(batch, *number);
        settle();
      } catch (const NonFiniteError& error) {  // raised on all workers alike
        if (options_.on_non_finite == OnNonFinite::fail) {
          strategy_.abort(error.what(), error.exit_code());
          throw;
        }
        log_warning("training stops, nothing after step ", state_.step - 1,
                    " is saved: ", error.what());
        request_stop("the loss or a gradient is not finite");
        ended_ = spoiled_ = true;
      }
      if (ended_ || (pace_.coordinates() && limits_->is_last(state_))) return;
    }
  }

  void take_step(const DistributedBatch& batch, std::int64_t number) {
    const auto results = strategy_.run(step_, state_, batch);
    update_averages(state_);
    if (results.front().losses.empty()) {
      throw ConfigError("the training step returned no loss.", "return the loss of the batch.");
    }
    state_.step = number;
    ++state_.position.step;
    ++history_.steps;
    const std::int64_t examples = pace_.examples_of(batch).value_or(0);
    history_.examples += examples;
    state_.epoch_loss.add(results, examples);
    poisoned_ = !are_finite(results);
    StepReport report{state_.step, batch.epoch, examples, {}};
    if (schedule_) report.learning_rate = schedule_->rate();
    if (wants_losses(report.step)) report.losses = strategy_.reduce(Reduction::sum, results);
    seen_step_ = report.step;
    for (auto& action : actions_) action->after_step(report, *this);
  }

  /// The host waits for the device here, as it did for the check of the gradients.
  static bool are_finite(const std::vector<StepResult>& results) {
    for (const StepResult& result : results) {
      for (const auto& [name, loss] : result.losses) {
        if (!std::isfinite(loss.item<double>())) return false;
      }
    }
    return true;
  }

  /// At an own pace numbers skip: what wants one of those between gets this step's losses.
  [[nodiscard]] bool wants_losses(std::int64_t step) const {
    for (std::int64_t number = seen_step_ + 1; number <= step; ++number) {
      if (detail::stock_wants_losses(options_, number, first_step_)) return true;
      for (const auto& action : given_) {
        if (action->wants_losses(number, number == first_step_)) return true;
      }
    }
    return false;
  }

  /// What follows from a step on all workers: a save, the end, or both.
  void settle() {
    const auto agreed =
        detail::agree(strategy_, {checkpoints_ && checkpoints_->is_due(), wants_stop(),
                                  checkpoints_ && checkpoints_->is_terminated(), poisoned_});
    if (agreed.poisoned) {
      throw NonFiniteError(text("the loss of step ", state_.step, " is not finite."),
                           "lower --learning-rate, or look for bad examples in the data.");
    }
    ended_ = agreed.stop;
    if (!checkpoints_) return;
    if (agreed.terminate) stop_by_signal();
    const bool last = agreed.stop || limits_->is_last(state_);
    if (!agreed.save && !last) return;
    checkpoints_->save(last ? Checkpointer::Save::last : Checkpointer::Save::periodic);
    if (!last && checkpoints_->listener_stops()) request_stop("a saving listener asked for it");
    ended_ = detail::agree(strategy_, {false, wants_stop()}).stop;
  }

  /// At an own pace what the chief ends with is everybody's end, and what it saves; in lockstep
  /// that is settled already.
  void settle_for_all() {
    if (checkpoints_ && !spoiled_) checkpoints_->save(Checkpointer::Save::last);
    pace_.end(state_, reason());
  }

  [[noreturn]] void stop_by_signal() {
    checkpoints_->save(Checkpointer::Save::stopping);
    checkpoints_->wait();
    (void)detail::agree(strategy_, {});  // nobody leaves before the chief has saved
    const std::string cause = text("SIGTERM: all workers stopped after step ", state_.step);
    pace_.end(state_, cause);
    if (!checkpoints_->saves()) {
      throw Stopped(cause + "; checkpoints are switched off, so the state is lost.",
                    "set --save-checkpoints-steps or --save-checkpoints-secs above 0.");
    }
    throw Stopped(cause + "; the state is saved in " + options_.model_dir + ".",
                  "start again with the same --model-dir to go on.");
  }

  /// Training and validation results of an epoch, or of the part of it that was trained.
  void report_epoch(double seconds) {
    history_.train = detail::reduce_report(strategy_, state_, state_.epoch_loss, Phase::train);
    history_.train->seconds = seconds;
    history_.seconds += seconds;
    const std::int64_t epoch = state_.position.epoch;
    const bool complete = state_.position.step == data_.train->steps_per_epoch();
    if (complete) {
      state_.position = {epoch + 1, 0};
      state_.epoch_loss = {};
      for (auto& replica : state_.replicas)
        detail::ReplicaDriver(*replica).metrics(Phase::train).reset();
      ++history_.epochs;
    }
    if (data_.validation && pace_.coordinates()) {
      pace_.collect(state_);
      history_.validation =
          evaluate(strategy_, hooks_, state_, *data_.validation, Phase::validation);
      // A part of an epoch is validated where a run ends, and not where it goes on.
      if (schedule_ && complete) schedule_->observe(*history_.validation);
    }
    const Report* validation = history_.validation ? &*history_.validation : nullptr;
    for (auto& action : actions_) action->after_epoch(epoch, *history_.train, validation);
  }

  [[nodiscard]] bool wants_stop() const { return !stop_reason_.empty(); }
  [[nodiscard]] std::string reason() const {
    if (wants_stop()) return stop_reason_;
    return limits_->reached(state_) ? limits_->reason(state_) : "another worker asked for it";
  }

  Strategy& strategy_;
  const Hooks& hooks_;
  TrainState& state_;
  const DistributedSplits& data_;
  const TrainOptions& options_;
  Pace& pace_;
  const Pace::Counts counts_;
  const Step step_;
  const Actions given_;  // the user's, the same on every worker
  Actions actions_;      // those that act here, the stock ones first
  SteadyClock clock_;
  std::optional<Checkpointer> checkpoints_;
  std::optional<detail::TrainingLimits> limits_;
  std::optional<LearningRateSchedule> schedule_;
  std::int64_t first_step_ = 1;  // of this run
  std::int64_t seen_step_ = 0;   // the last one that this worker took
  std::string stop_reason_;
  bool ready_ = false;     // the actions know that the run has begun
  bool poisoned_ = false;  // a loss of the last step is not finite here
  bool spoiled_ = false;   // what the state holds is not to be saved
  bool ended_ = false;
  History history_;
};

}  // namespace

History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Companions companions) {
  return detail::sharing_failure(strategy, [&] {
    check(data, options);
    check_pace(strategy.pace(), options);
    return Training(strategy, hooks, state, data, options, std::move(companions)).run();
  });
}

}  // namespace troupe
