// TrainingLimits: when training ends, in epochs and in steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "troupe/core/options/train_options.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/train_state.h"

namespace troupe::detail {

class TrainingLimits {
 public:
  /// Training starts after step `began_at`; `counts.updates_per_epoch` is at least 1
  /// where it is known.
  TrainingLimits(const TrainOptions& options, std::int64_t began_at, const Pace::Counts& counts);

  /// Nothing is left to do.
  [[nodiscard]] bool reached(const TrainState& state) const;
  /// The step that brought `state` here was the last one.
  [[nodiscard]] bool is_last(const TrainState& state) const;
  /// The step that training ends at, if nobody stops it; INT64_MAX: unknown, a stream's end.
  [[nodiscard]] std::int64_t last_step() const;
  /// "max_steps 600 is reached", "the data has ended: 2 epochs, step 140 of max_steps 600".
  [[nodiscard]] std::string reason(const TrainState& state) const;

 private:
  std::optional<std::int64_t> updates_per_epoch_;
  std::int64_t epochs_;
  std::int64_t steps_;
  bool relative_;  // to where this run started
  bool ends_by_place_;
};

}  // namespace troupe::detail
