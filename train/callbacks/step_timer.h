// StepTimer: when something periodic is due, by steps or by time. The rules are those of
// Estimator's SecondOrStepTimer.
#pragma once

#include <cstdint>
#include <optional>

#include "troupe/core/clock.h"
#include "troupe/train/callbacks/every.h"

namespace troupe {

class StepTimer {
 public:
  struct Elapsed {
    std::optional<Seconds> seconds;
    std::optional<std::int64_t> steps;
  };

  /// `clock` outlives the timer. Throws: ConfigError as Every::validate for `owner`.
  StepTimer(const Every& every, const Clock& clock, const char* owner = "StepTimer");

  /// True if never marked; false for the step that was marked last; else by the period.
  [[nodiscard]] bool due(std::int64_t step) const;
  /// Starts the next period; returns what has passed since the previous mark, nothing at the first.
  Elapsed mark(std::int64_t step);
  [[nodiscard]] std::optional<std::int64_t> last_step() const { return last_step_; }
  /// As if never marked.
  void reset();

 private:
  Every every_;
  const Clock& clock_;
  std::optional<std::int64_t> last_step_;
  Clock::TimePoint last_time_;
};

}  // namespace troupe
