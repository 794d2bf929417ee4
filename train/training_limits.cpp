#include "troupe/train/training_limits.h"

#include <algorithm>
#include <limits>

#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t step_limit(const TrainOptions& options, std::int64_t began_at) {
  if (!options.steps) return options.max_steps.value_or(kNoLimit);
  return *options.steps > kNoLimit - began_at ? kNoLimit : began_at + *options.steps;
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

}  // namespace troupe::detail
