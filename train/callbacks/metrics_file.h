// MetricsFile: one JSON object a line per logged step, for programs to read.
#pragma once

#include <fstream>
#include <string>

#include "core/clock.h"
#include "train/callbacks/callbacks.h"

namespace troupe {

class MetricsFile final : public PeriodicAction {
 public:
  /// A resumed run appends to what the former one wrote.
  enum class Open { anew, append };
  /// Logged are the steps that StepLog logs. `clock` outlives this object.
  /// Throws: EnvironmentError when `path` cannot be written.
  MetricsFile(std::string path, Open open, const Clock& clock, std::int64_t log_every = 1);
  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override { first_ = true; }
  /// {"step": 100, "epoch": 0, "loss": 0.31, "seconds": 1.7}; seconds since the file was started.
  void after_step(const StepReport& report, RunControl& run) override;
  /// {"step": 938, "epoch": 0, "train": {...}, "validation": {...}}
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;
  /// {"step": 100, "epoch": 0, "clip": 0.05, "seconds": 1.7}
  void after_log(const LoggedValue& value) override;

 private:
  void write(const std::string& line);

  std::string path_;
  const Clock& clock_;
  Clock::TimePoint start_;
  std::int64_t log_every_;
  bool first_ = true;  // no step of this run was seen yet
  std::int64_t step_ = 0;
  std::ofstream out_;
};

}  // namespace troupe
