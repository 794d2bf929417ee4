#include "train/loop.h"

#include <algorithm>
#include <limits>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "strategies/shared_failure.h"
#include "train/checkpointer.h"
#include "train/evaluate.h"
#include "train/metrics_file.h"
#include "train/progress_bar.h"
#include "train/step_log.h"

namespace troupe {
namespace {

/// When training ends, in epochs and in steps.
struct Limits {
  std::int64_t epochs;
  std::int64_t steps;

  explicit Limits(const TrainOptions& options)
      : epochs(options.epochs.value_or(options.max_steps ? std::numeric_limits<std::int64_t>::max()
                                                         : 1)),
        steps(options.max_steps.value_or(std::numeric_limits<std::int64_t>::max())) {}

  [[nodiscard]] bool reached(const TrainState& state) const {
    return state.position.epoch >= epochs || state.step >= steps;
  }
  /// Whether the step that brought `state` here was the last one.
  [[nodiscard]] bool is_last(const TrainState& state, std::int64_t steps_per_epoch) const {
    const bool epoch_done = state.position.step == steps_per_epoch;
    return state.step >= steps || (epoch_done && state.position.epoch + 1 >= epochs);
  }
  [[nodiscard]] std::int64_t total_steps(std::int64_t steps_per_epoch) const {
    return epochs > steps / steps_per_epoch ? steps : std::min(steps, epochs * steps_per_epoch);
  }
};

bool is_logged(std::int64_t step, bool first, const TrainOptions& options) {
  return options.log_every > 0 && (first || step % options.log_every == 0);
}

void add_stock_actions(Actions& actions, const TrainOptions& options, std::int64_t total_steps,
                       std::int64_t steps_done, const Clock& clock) {
  Actions stock;
  if (options.progress && ProgressBar::has_terminal()) {
    stock.push_back(std::make_unique<ProgressBar>(total_steps, clock));
  }
  stock.push_back(std::make_unique<StepLog>(clock));
  if (!options.metrics_file.empty()) {
    stock.push_back(std::make_unique<MetricsFile>(
        options.metrics_file, steps_done > 0 ? MetricsFile::Open::append : MetricsFile::Open::anew,
        clock));
  }
  actions.insert(actions.begin(), std::make_move_iterator(stock.begin()),
                 std::make_move_iterator(stock.end()));
}

/// One call of train(): what it runs on, and what it came to so far.
class Training {
 public:
  Training(Strategy& strategy, const Hooks& hooks, TrainState& state, const DistributedSplits& data,
           const TrainOptions& options, Actions actions)
      : strategy_(strategy),
        state_(state),
        data_(data),
        options_(options),
        limits_(options),
        hooks_(hooks),
        step_([&hooks](Replica& replica, const Batch& batch) {
          return hooks.train_step(replica, batch);
        }),
        actions_(std::move(actions)) {
    if (!options.model_dir.empty()) {
      const DataIdentity identity{data.train->examples(), options.batch_size, options.seed};
      checkpoints_.emplace(strategy, state, identity, options, clock_);
    }
    if (strategy.is_chief()) {
      const auto total = limits_.total_steps(data.train->steps_per_epoch());
      add_stock_actions(actions_, options, total, state.step, clock_);
    }
  }

  History run() {
    while (!limits_.reached(state_)) {
      const auto start = clock_.now();
      run_steps();
      report_epoch(Seconds(clock_.now() - start).count());
    }
    strategy_.synchronize_buffers(state_);
    return std::move(history_);
  }

 private:
  /// The steps of the epoch that are left, as far as the limits allow.
  void run_steps() {
    const auto steps_per_epoch = data_.train->steps_per_epoch();
    for (const DistributedBatch& batch :
         data_.train->epoch(state_.position.epoch, state_.position.step)) {
      const auto results = strategy_.run(step_, state_, batch);
      ++state_.step;
      ++state_.position.step;
      ++history_.steps;
      history_.examples += batch.global_examples;
      state_.epoch_loss.add(results, batch.global_examples);
      StepReport report{state_.step, batch.epoch, batch.global_examples, {}};
      if (is_logged(state_.step, history_.steps == 1, options_)) {
        report.losses = strategy_.reduce(Reduction::sum, results);
      }
      for (auto& action : actions_) action->after_step(report);
      const bool last = limits_.is_last(state_, steps_per_epoch);
      if (checkpoints_) {
        checkpoints_->after_step(last ? Checkpointer::Step::last : Checkpointer::Step::ordinary);
      }
      if (last) return;
    }
  }

  /// Training and validation results of an epoch, or of the part of it that the limits allowed.
  void report_epoch(double seconds) {
    history_.train = detail::reduce_report(strategy_, state_, state_.epoch_loss, Phase::train);
    history_.train->seconds = seconds;
    history_.seconds += seconds;
    const std::int64_t epoch = state_.position.epoch;
    if (state_.position.step == data_.train->steps_per_epoch()) {
      state_.position = {epoch + 1, 0};
      state_.epoch_loss = {};
      for (auto& replica : state_.replicas) replica->metrics(Phase::train).reset();
      ++history_.epochs;
    }
    if (data_.validation) {
      history_.validation =
          evaluate(strategy_, hooks_, state_, *data_.validation, Phase::validation);
    }
    const Report* validation = history_.validation ? &*history_.validation : nullptr;
    for (auto& action : actions_) action->after_epoch(epoch, *history_.train, validation);
  }

  Strategy& strategy_;
  TrainState& state_;
  const DistributedSplits& data_;
  const TrainOptions& options_;
  const Limits limits_;
  const Hooks& hooks_;
  const Step step_;
  Actions actions_;
  SteadyClock clock_;
  std::optional<Checkpointer> checkpoints_;
  History history_;
};

}  // namespace

History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Actions actions) {
  if (!data.train || data.train->steps_per_epoch() == 0) {
    throw ConfigError("there is no training data.",
                      "return a training split with examples from create_datasets.");
  }
  return detail::sharing_failure(strategy, [&] {
    return Training(strategy, hooks, state, data, options, std::move(actions)).run();
  });
}

}  // namespace troupe
