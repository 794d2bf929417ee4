// StepMeeting: where the workers meet after a step. Their wishes become one decision, and each
// learns for how long the others were at work.
#pragma once

#include <cstdint>
#include <optional>

#include "troupe/hooks/values.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/straggler_watch.h"
#include "troupe/train/wishes.h"

namespace troupe::detail {

class StepMeeting {
 public:
  /// `strategy` outlives it.
  explicit StepMeeting(Strategy& strategy) : strategy_(strategy) {}

  /// As detail::agree(). The chief warns of a worker that is slower than the others.
  /// Collective: yes.
  [[nodiscard]] Wishes agree(const Wishes& mine);
  /// As RunControl::waiting().
  [[nodiscard]] LossValues waiting() const {
    return stragglers_ ? stragglers_->waiting() : LossValues();
  }

 private:
  Strategy& strategy_;
  std::optional<StragglerWatch> stragglers_;  // where workers take each step together
  std::int64_t met_at_ = 0;                   // nanoseconds, as trace_time(); 0: they have not met
  double waited_ = 0;                         // Pace::waited_seconds() then
};

}  // namespace troupe::detail
