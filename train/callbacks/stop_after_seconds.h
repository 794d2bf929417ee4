// StopAfterSeconds: training ends with the first step that ends so long after begin. The chief's
// clock decides.
#pragma once

#include "core/clock.h"
#include "train/callbacks/periodic_action.h"

namespace troupe {

class StopAfterSeconds final : public PeriodicAction {
 public:
  /// `clock` outlives this object. Throws: ConfigError for a limit that is not above 0.
  StopAfterSeconds(Seconds limit, const Clock& clock);
  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override;
  void after_step(const StepReport& report, RunControl& run) override;

 private:
  Seconds limit_;
  const Clock& clock_;
  Clock::TimePoint start_;
};

}  // namespace troupe
