// StepLog: one line per logged step in the form that Estimator's users know,
//   loss = 0.3121, step = 200 (0.514 sec), global_step/sec: 194.6, examples/sec: 12451
// and one line per report at the end of an epoch.
#pragma once

#include "core/clock.h"
#include "train/periodic_action.h"

namespace troupe {

class StepLog final : public PeriodicAction {
 public:
  /// `clock` outlives this object.
  explicit StepLog(const Clock& clock) : clock_(clock), last_time_(clock.now()) {}
  void after_step(const StepReport& report) override;
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;

 private:
  const Clock& clock_;
  Clock::TimePoint last_time_;
  std::int64_t last_step_ = -1;  // of the last line; -1: none yet, so no duration either
  std::int64_t examples_ = 0;    // since the last line
};

}  // namespace troupe
