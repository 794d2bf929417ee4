// StepCounter: how fast training is, as steps per second once a period. On the chief.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "train/callbacks/callbacks.h"
#include "train/callbacks/step_timer.h"

namespace troupe {

class StepCounter final : public PeriodicAction {
 public:
  /// Gets the step and the speed since the period before.
  using Output = std::function<void(std::int64_t step, double steps_per_second)>;

  /// The first output comes when one period is over. Warns where the step stays the same over 20
  /// calls: nothing counts it. `clock` outlives this object. Throws: ConfigError for a bad `every`.
  StepCounter(const Every& every, Output output, const Clock& clock);
  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override;
  void after_step(const StepReport& report, RunControl& run) override;

 private:
  void watch(std::int64_t step);

  StepTimer timer_;
  Output output_;
  std::optional<std::int64_t> last_step_;
  int checks_without_increase_ = 0;
};

}  // namespace troupe
