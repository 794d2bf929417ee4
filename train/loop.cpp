#include "train/loop.h"

#include <algorithm>
#include <limits>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
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
  [[nodiscard]] std::int64_t total_steps(std::int64_t steps_per_epoch) const {
    return epochs > steps / steps_per_epoch ? steps : std::min(steps, epochs * steps_per_epoch);
  }
};

bool is_logged(std::int64_t step, bool first, const TrainOptions& options) {
  return options.log_every > 0 && (first || step % options.log_every == 0);
}

void add_stock_actions(Actions& actions, const TrainOptions& options, std::int64_t total_steps,
                       const Clock& clock) {
  Actions stock;
  if (options.progress && ProgressBar::has_terminal()) {
    stock.push_back(std::make_unique<ProgressBar>(total_steps, clock));
  }
  stock.push_back(std::make_unique<StepLog>(clock));
  if (!options.metrics_file.empty()) {
    stock.push_back(std::make_unique<MetricsFile>(options.metrics_file, clock));
  }
  actions.insert(actions.begin(), std::make_move_iterator(stock.begin()),
                 std::make_move_iterator(stock.end()));
}

}  // namespace

History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Actions actions) {
  if (!data.train || data.train->steps_per_epoch() == 0) {
    throw ConfigError("there is no training data.",
                      "return a training split with examples from create_datasets.");
  }
  const SteadyClock clock;
  const Limits limits(options);
  if (strategy.is_chief()) {
    add_stock_actions(actions, options, limits.total_steps(data.train->steps_per_epoch()), clock);
  }
  const Step step = [&](Replica& replica, const Batch& batch) {
    return hooks.train_step(replica, batch);
  };
  History history;
  while (!limits.reached(state)) {
    const auto start = clock.now();
    LossMeter meter;
    for (const DistributedBatch& batch :
         data.train->epoch(state.position.epoch, state.position.step)) {
      const auto results = strategy.run(step, state, batch);
      ++state.step;
      ++state.position.step;
      meter.add(results, batch.global_examples);
      StepReport report{state.step, batch.epoch, batch.global_examples, {}};
      if (is_logged(state.step, history.steps == 0, options)) {
        report.losses = strategy.reduce(Reduction::sum, results);
      }
      ++history.steps;
      for (auto& action : actions) action->after_step(report);
      if (state.step >= limits.steps) break;
    }
    history.train = detail::reduce_report(strategy, state, meter, Phase::train);
    history.train->seconds = Seconds(clock.now() - start).count();
    history.seconds += history.train->seconds;
    history.examples += meter.examples();
    const std::int64_t epoch = state.position.epoch;
    if (state.position.step == data.train->steps_per_epoch()) {
      state.position = {epoch + 1, 0};
      ++history.epochs;
    }
    if (data.validation) {
      history.validation = evaluate(strategy, hooks, state, *data.validation, Phase::validation);
    }
    for (auto& action : actions) {
      action->after_epoch(epoch, *history.train,
                          history.validation ? &*history.validation : nullptr);
    }
  }
  strategy.synchronize_buffers(state);
  return history;
}

}  // namespace troupe
