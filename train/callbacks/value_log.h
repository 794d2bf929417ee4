// ValueLog: values of the user's choice in the log, Estimator's LoggingTensorHook:
//   learning_rate = 0.03, gradient_norm = 1.7 (0.514 sec)
// Every worker logs its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "train/callbacks/named_values.h"
#include "train/callbacks/periodic_action.h"
#include "train/callbacks/step_timer.h"

namespace troupe {

class ValueLog final : public PeriodicAction {
 public:
  using Source = std::function<NamedValues()>;
  struct Options {
    Every every;          // of this run's steps, whatever step it started at; the first is logged
    bool at_end = false;  // once more at the end; alone it needs no `every`
    std::function<std::string(const NamedValues&)> format;  // makes the whole line; null: as above
  };

  /// Calls `source` only where a line is due: by steps on all workers alike, by seconds not.
  /// `clock` outlives this object. Throws: ConfigError when it would never log, or for a bad
  /// `every`.
  ValueLog(Source source, Options options, const Clock& clock);
  void begin() override;
  void after_step(const StepReport& report, RunControl& run) override;
  void end(RunControl& run) override;

 private:
  void log_values();

  Source source_;
  Options options_;
  std::optional<StepTimer> timer_;  // unset: at the end only
  std::int64_t steps_of_run_ = 0;
};

}  // namespace troupe
