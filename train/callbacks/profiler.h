// Profiler: where the time of single steps goes, one timeline-<step>.json per captured step to be
// opened in Perfetto. On the chief. A recorder adds what happened within the step; with LibTorch
// that is make_operator_recorder().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/callbacks/callbacks.h"
#include "train/callbacks/step_timer.h"

namespace troupe {

/// A timed event on a thread. Times are microseconds, the format's unit.
struct TraceSpan {
  std::string name;
  double start_us = 0;  // since the trace was started
  double duration_us = 0;
  std::uint64_t thread = 0;
};

/// In the format of Chrome's about:tracing and of Perfetto: a JSON array of complete events,
/// {"name": "aten::mm", "ph": "X", "ts": 12.5, "dur": 80.1, "pid": 4711, "tid": 1}.
/// Throws: EnvironmentError if the file cannot be written.
void write_trace_file(const std::string& path, const std::vector<TraceSpan>& spans);

/// Records spans between start and stop, called in turn and on one thread. The destructor ends an
/// unfinished recording.
class SpanRecorder {
 public:
  virtual ~SpanRecorder() = default;
  virtual void start() = 0;
  /// In the order of their start times, measured from start().
  [[nodiscard]] virtual std::vector<TraceSpan> stop() = 0;
};

class Profiler final : public PeriodicAction {
 public:
  /// Never captures the first step of a run, which includes warming up; then captures by `every`:
  /// with 2 steps 2, 4, 6 ... `directory` is made when needed. `recorder` null: only the step's
  /// span. `clock` outlives this object. Throws: ConfigError for a bad `every`.
  Profiler(std::string directory, const Every& every, const Clock& clock,
           std::unique_ptr<SpanRecorder> recorder = nullptr);
  [[nodiscard]] bool chief_only() const override { return true; }
  void ready(RunControl& run) override;
  void before_step(RunControl& run) override;
  /// Throws: EnvironmentError if the file cannot be written.
  void after_step(const StepReport& report, RunControl& run) override;
  /// Discards a step that was begun but not taken.
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

/// LibTorch's operators as spans, by its own recorder: on the thread that steps, and on the threads
/// that work for its backward pass. Part of troupe_train, because it needs LibTorch.
/// Null if this LibTorch lacks the recorder: a Profiler then shows only the steps.
/// start() throws c10::Error while another profiler of LibTorch runs on the thread.
[[nodiscard]] std::unique_ptr<SpanRecorder> make_operator_recorder();

}  // namespace troupe
