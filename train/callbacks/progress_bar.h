// ProgressBar: where training stands, on a terminal; in a log file a bar is noise, so there it is
// none.
#pragma once

#include "core/clock.h"
#include "train/callbacks/callbacks.h"

namespace troupe {

class ProgressBar final : public PeriodicAction {
 public:
  /// `total_steps` of the whole run. Drawn at most ten times a second. `clock` outlives this
  /// object.
  ProgressBar(std::int64_t total_steps, const Clock& clock);
  /// Whether there is a terminal to draw on (stderr).
  [[nodiscard]] static bool has_terminal();
  [[nodiscard]] bool chief_only() const override { return true; }
  void after_step(const StepReport& report, RunControl& run) override;
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;

 private:
  std::int64_t total_steps_;
  const Clock& clock_;
  Clock::TimePoint last_drawn_;
};

}  // namespace troupe
