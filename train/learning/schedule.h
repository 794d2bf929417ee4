// LearningRateSchedule: moves the rates of a training's optimisers from step to step. A TrainingRun
// has one where its options or callbacks ask for it.
#pragma once

#include <cstdint>
#include <optional>

#include "options/train_options.h"
#include "strategies/train_state.h"
#include "train/learning/schedule_factor.h"
#include "train/report.h"

namespace troupe {

class LearningRateSchedule {
 public:
  /// What the factors multiply is what the optimisers have now, or had when the first schedule of
  /// `state` was made. `last_step`: where training ends, which a cosine without decay_steps runs
  /// to. `state` outlives the schedule and keeps what a plateau remembers.
  /// Throws: ConfigError for bad options, a cosine without an end, or an optimiser without a rate.
  LearningRateSchedule(ScheduleOptions options, TrainState& state,
                       std::optional<std::int64_t> last_step = std::nullopt);
  LearningRateSchedule(RateFactor factor, TrainState& state);

  /// Sets the rates of step `step` (from 1) in every parameter group of every optimiser of this
  /// worker's replicas. Throws: ConfigError where the user's factor is negative or not finite.
  void apply(std::int64_t step);
  /// The rate that the first optimiser's first group was given last; unset: none yet.
  [[nodiscard]] std::optional<double> rate() const { return rate_; }
  /// A plateau takes the validation of an epoch to account; every other schedule ignores it.
  /// `validation` is reduced, so all workers do the same.
  /// Throws: ConfigError where it has no metric or loss of that name.
  void observe(const Report& validation);

 private:
  ScheduleOptions options_;
  RateFactor factor_;  // null: the options'
  TrainState& state_;
  std::optional<double> rate_;
};

namespace detail {

/// Remembers the optimisers' present rates as those of create_model, unless some are remembered.
/// Comes before a checkpoint is restored. Throws: ConfigError for an optimiser without a rate.
void remember_rates(TrainState& state);
/// The end of that: the optimisers get the remembered rates back.
void forget_rates(TrainState& state);

}  // namespace detail
}  // namespace troupe
