// ProgressReporter: where training stands, for whoever shows it.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/report/progress.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe {

/// Tells its sinks after a step, at most ten times a second, and whenever something else changes.
/// It wants no losses: it shows those of the steps that are logged or summarised.
class ProgressReporter final : public PeriodicAction {
 public:
  /// Of the worker `rank`; `total_steps` are what training would end at; INT64_MAX: unknown;
  /// `unit`: what a pass over the data is called. `clock` outlives it.
  ProgressReporter(int rank, std::int64_t total_steps, std::string unit, const Clock& clock,
                   std::vector<ProgressSink> sinks);
  void ready(RunControl& run) override;
  void after_step(const StepReport& report, RunControl& run) override;
  void before_validation() override;
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;
  void end(RunControl& run) override;

 private:
  struct Sample {
    Clock::TimePoint time;
    std::int64_t step;
    std::int64_t examples;
  };

  void tell();
  void sample(Clock::TimePoint now);

  const Clock& clock_;
  const std::vector<ProgressSink> sinks_;
  Progress progress_;
  std::deque<Sample> samples_;  // of the last seconds of training, without a break
  Clock::TimePoint told_at_;
};

}  // namespace troupe
