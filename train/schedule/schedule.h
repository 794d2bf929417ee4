// LearningRateSchedule: sets the rates of a training run's optimisers at every step. A TrainingRun
// has one if its options or callbacks request it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "troupe/core/options/train_options.h"
#include "troupe/hooks/report.h"
#include "troupe/strategies/train_state.h"
#include "troupe/train/schedule/schedule_factor.h"

namespace troupe {

/// As Callbacks::rate_factor.
using RateFactor = std::function<double(std::int64_t step)>;

class LearningRateSchedule {
 public:
  /// The factors multiply the rates that the optimisers have now, or had when the first schedule of
  /// `state` was made. `last_step`: where training ends, and with it a cosine without decay_steps.
  /// `state` outlives the schedule and keeps a plateau's memory.
  /// Throws: ConfigError for bad options, a cosine without an end, or an optimiser without a rate.
  LearningRateSchedule(ScheduleOptions options, TrainState& state,
                       std::optional<std::int64_t> last_step = std::nullopt);
  LearningRateSchedule(RateFactor factor, TrainState& state);

  /// Sets the rates of step `step` (from 1) in every parameter group of every optimiser of this
  /// worker's replicas. Throws: ConfigError if the user's factor is negative or not finite.
  void apply(std::int64_t step);
  /// The rate that the first optimiser's first group was last given; unset: none yet.
  [[nodiscard]] std::optional<double> rate() const { return rate_; }
  /// A plateau takes an epoch's validation into account; every other schedule ignores it.
  /// `validation` is reduced, so all workers do the same.
  /// Throws: as check().
  void observe(const Report& validation);
  /// Throws: ConfigError if a plateau's validation lacks the metric or loss of the configured name,
  /// or the metric does not say which way is better (Metric::better).
  void check(const Report& validation) const { (void)watched(validation); }

 private:
  /// Of a plateau: the value that it watches, negated if a higher one is better.
  struct Watched {
    double value = 0;
    double sign = 1;
  };
  [[nodiscard]] std::optional<Watched> watched(const Report& validation) const;

  ScheduleOptions options_;
  RateFactor factor_;  // null: the options'
  TrainState& state_;
  std::optional<double> rate_;
};

namespace detail {

/// Remembers the optimisers' present rates as those of create_model, unless some are remembered.
/// Call before a checkpoint is restored. Throws: ConfigError for an optimiser without a rate.
void remember_rates(TrainState& state);
/// Ends that: restores the remembered rates to the optimisers.
void forget_rates(TrainState& state);

}  // namespace detail
}  // namespace troupe
