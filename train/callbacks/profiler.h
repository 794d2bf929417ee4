// Profiler: where the time of single steps goes, one timeline-<step>.json per captured step to be
// opened in Perfetto. On the chief. A recorder adds what happened within the step; with LibTorch
// that is make_operator_recorder().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/callbacks/periodic_action.h"
#include "train/callbacks/step_timer.h"
#include "train/callbacks/trace_file.h"

namespace troupe {

/// Records spans between start and stop, called in turn and on one thread. The destructor ends what
/// was not stopped.
class SpanRecorder {
 public:
  virtual ~SpanRecorder() = default;
  virtual void start() = 0;
  /// In the order of their starts, which count from start().
  [[nodiscard]] virtual std::vector<TraceSpan> stop() = 0;
};

class Profiler final : public PeriodicAction {
 public:
  /// Captures no first step of a run, which pays for warming up, then by `every`: with 2 steps 2,
  /// 4, 6 ... `directory` is made when it is needed. `recorder` null: the step's span alone.
  /// `clock` outlives this object. Throws: ConfigError for a bad `every`.
  Profiler(std::string directory, const Every& every, const Clock& clock,
           std::unique_ptr<SpanRecorder> recorder = nullptr);
  [[nodiscard]] bool chief_only() const override { return true; }
  void ready(RunControl& run) override;
  void before_step(RunControl& run) override;
  /// Throws: EnvironmentError where the file cannot be written.
  void after_step(const StepReport& report, RunControl& run) override;
  /// Forgets a step that was begun and not taken.
  void end(RunControl& run) override;

 private:
  [[nodiscard]] std::vector<TraceSpan> stop_recording();

  std::string directory_;
  StepTimer timer_;
  const Clock& clock_;
  std::unique_ptr<SpanRecorder> recorder_;
  std::int64_t first_step_ = 0;  // of this run
  bool capturing_ = false;
  Clock::TimePoint start_;  // of the captured step
};

}  // namespace troupe
