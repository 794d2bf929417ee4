#include "train/callbacks/profiler.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace troupe {
namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

void make_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) return;
  throw EnvironmentError(
      text("the directory '", directory, "' for traces cannot be made: ", error.message(), "."),
      "name a directory that can be made and written.");
}

}  // namespace

void write_trace_file(const std::string& path, const std::vector<TraceSpan>& spans) {
  std::ofstream out(path, std::ios::trunc);
  const char* separator = "[\n";
  for (const TraceSpan& span : spans) {
    const nlohmann::ordered_json event = {{"name", span.name},   {"ph", "X"},
                                          {"ts", span.start_us}, {"dur", span.duration_us},
                                          {"pid", getpid()},     {"tid", span.thread}};
    // Names come from users' code, too: bytes that are no UTF-8 are replaced.
    out << separator << event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    separator = ",\n";
  }
  out << (spans.empty() ? "[]\n" : "\n]\n") << std::flush;
  if (!out) {
    throw EnvironmentError("the trace '" + path + "' cannot be written.",
                           "name a directory that is writable, on a disk that is not full.");
  }
}

Profiler::Profiler(std::string directory, const Every& every, const Clock& clock,
                   std::unique_ptr<SpanRecorder> recorder)
    : directory_(std::move(directory)),
      timer_(every, clock, "Profiler"),
      clock_(clock),
      recorder_(std::move(recorder)) {}

void Profiler::ready(RunControl& run) {
  timer_.reset();
  timer_.mark(run.step());  // the period starts with the run
  first_step_ = run.step() + 1;
}

void Profiler::before_step(RunControl& run) {
  const std::int64_t step = run.step() + 1;
  if (step == first_step_ || !timer_.due(step)) return;
  capturing_ = true;
  start_ = clock_.now();
  if (recorder_) recorder_->start();
}

void Profiler::after_step(const StepReport& report, RunControl& /*run*/) {
  if (!capturing_) return;
  const Microseconds duration = clock_.now() - start_;
  std::vector<TraceSpan> spans = stop_recording();
  timer_.mark(report.step);
  spans.insert(spans.begin(), {text("step ", report.step), 0, duration.count(), 0});
  make_directory(directory_);
  const std::string path = text(directory_, "/timeline-", report.step, ".json");
  write_trace_file(path, spans);
  log_info("the trace of step ", report.step, " is in '", path, "'");
}

void Profiler::end(RunControl& /*run*/) {
  if (capturing_) (void)stop_recording();
}

std::vector<TraceSpan> Profiler::stop_recording() {
  capturing_ = false;
  return recorder_ ? recorder_->stop() : std::vector<TraceSpan>();
}

}  // namespace troupe
