// StepMeeting: where the workers meet after a step. Their wishes become one decision, nobody goes
// on before a leader has told what the steps came to, and each learns for how long the others were
// at work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "troupe/hooks/values.h"
#include "troupe/report/outbox.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/straggler_watch.h"
#include "troupe/train/wishes.h"

namespace troupe::detail {

class StepMeeting {
 public:
  /// Both outlive it. `follow`: this worker may be another group's now, or its leader: tells what
  /// it has kept.
  StepMeeting(Strategy& strategy, Outbox& outbox, std::function<void()> follow)
      : strategy_(strategy), outbox_(outbox), follow_(std::move(follow)) {}

  /// As detail::agree(), of what `wishes` returns; again, where the leader was lost, and the next
  /// one did not know yet what to tell. The chief warns of a worker that is slower than the others.
  /// Collective: yes.
  [[nodiscard]] Wishes agree(const std::function<Wishes()>& wishes);
  /// This worker may be the leader now: see the constructor.
  void follow() { follow_(); }
  /// As RunControl::waiting().
  [[nodiscard]] LossValues waiting() const {
    return stragglers_ ? stragglers_->waiting() : LossValues();
  }

 private:
  [[nodiscard]] Wishes meet(const Wishes& mine);

  Strategy& strategy_;
  Outbox& outbox_;
  const std::function<void()> follow_;
  std::optional<StragglerWatch> stragglers_;  // where workers take each step together
  std::int64_t met_at_ = 0;                   // nanoseconds, as trace_time(); 0: they have not met
  double waited_ = 0;                         // Pace::waited_seconds() then
};

}  // namespace troupe::detail
