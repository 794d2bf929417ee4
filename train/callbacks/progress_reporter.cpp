#include "troupe/train/callbacks/progress_reporter.h"

#include <chrono>
#include <limits>
#include <utility>

namespace troupe {
namespace {

constexpr auto kTellInterval = std::chrono::milliseconds(100);
constexpr auto kRateWindow = std::chrono::seconds(5);

}  // namespace

ProgressReporter::ProgressReporter(int rank, std::int64_t total_steps, std::string unit,
                                   const Clock& clock, std::vector<ProgressSink> sinks)
    : clock_(clock), sinks_(std::move(sinks)) {
  progress_.rank = rank;
  progress_.unit = std::move(unit);
  if (total_steps != std::numeric_limits<std::int64_t>::max()) progress_.total_steps = total_steps;
}

void ProgressReporter::tell() {
  told_at_ = clock_.now();
  for (const ProgressSink& sink : sinks_) sink(progress_);
}

/// The rates of the last seconds. After a break, such as a validation, those before it hold until
/// there are new ones.
void ProgressReporter::sample(Clock::TimePoint now) {
  samples_.push_back({now, progress_.step, progress_.examples});
  while (samples_.size() > 2 && now - samples_[1].time >= kRateWindow) samples_.pop_front();
  const Sample& first = samples_.front();
  const double seconds = Seconds(now - first.time).count();
  if (seconds <= 0) return;
  progress_.steps_per_second = static_cast<double>(progress_.step - first.step) / seconds;
  progress_.examples_per_second =
      static_cast<double>(progress_.examples - first.examples) / seconds;
}

void ProgressReporter::ready(RunControl& run) {
  progress_.activity = Progress::Activity::training;
  progress_.first_step = progress_.step = run.step();
  sample(clock_.now());
  tell();
}

void ProgressReporter::after_step(const StepReport& report, RunControl& run) {
  progress_.activity = Progress::Activity::training;
  progress_.step = report.step;
  progress_.epoch = report.epoch;
  progress_.examples += report.examples;
  if (!report.losses.empty()) progress_.losses = report.losses;
  progress_.learning_rate = report.learning_rate;
  const auto now = clock_.now();
  if (now - told_at_ < kTellInterval && report.step != progress_.total_steps) return;
  progress_.waiting = run.waiting();
  sample(now);
  tell();
}

void ProgressReporter::before_validation() {
  progress_.activity = Progress::Activity::validating;
  samples_.clear();
  tell();
}

void ProgressReporter::after_epoch(std::int64_t /*epoch*/, const Report& train,
                                   const Report* validation) {
  progress_.activity = Progress::Activity::training;
  if (progress_.losses.empty()) progress_.losses = train.losses;
  if (validation != nullptr) {
    progress_.validation = validation->losses;
    for (const MetricValue& metric : validation->metrics) {
      progress_.validation.emplace_back(metric.name, metric.value);
    }
    progress_.validation_step = progress_.step;
    samples_.clear();
    sample(clock_.now());
  }
  tell();
}

void ProgressReporter::end(RunControl& /*run*/) {
  progress_.activity = Progress::Activity::ended;
  tell();
}

}  // namespace troupe
