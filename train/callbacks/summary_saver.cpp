#include "troupe/train/callbacks/summary_saver.h"

namespace troupe {
namespace {

/// "validation/accuracy": TensorBoard shows the values of a phase together.
void add(std::vector<Scalar>& scalars, const Report& report) {
  const std::string phase = to_string(report.phase);
  for (const auto& [name, value] : report.losses) scalars.push_back({phase + "/" + name, value});
  for (const MetricValue& metric : report.metrics) {
    scalars.push_back({phase + "/" + metric.name, metric.value});
  }
}

}  // namespace

void SummarySaver::after_step(const StepReport& report, RunControl& /*run*/) {
  const std::int64_t passed = report.step - std::exchange(step_, report.step);
  if (report.step != last_step_ && !is_summary_step(report.step, every_, passed)) return;
  std::vector<Scalar> scalars;
  for (const auto& [name, value] : report.losses) scalars.push_back({name, value});
  if (report.learning_rate) scalars.push_back({"learning_rate", *report.learning_rate});
  if (!scalars.empty()) sink_(report.step, scalars);
}

void SummarySaver::after_epoch(std::int64_t /*epoch*/, const Report& train,
                               const Report* validation) {
  std::vector<Scalar> scalars;
  add(scalars, train);
  if (validation != nullptr) add(scalars, *validation);
  if (!scalars.empty()) sink_(step_, scalars);
}

void StepCounter::after_step(const StepReport& report, RunControl& /*run*/) {
  const std::int64_t passed = report.step - last_step_.value_or(report.step - 1);
  last_step_ = report.step;
  examples_ += report.examples;
  ++steps_;
  if (timer_.last_step() && !is_summary_step(report.step, every_, passed)) return;
  const auto [seconds, steps] = timer_.mark(report.step);
  const double examples_per_step = static_cast<double>(std::exchange(examples_, 0)) /
                                   static_cast<double>(std::exchange(steps_, 0));
  if (!seconds || !steps || seconds->count() <= 0) return;
  const double rate = static_cast<double>(*steps) / seconds->count();
  output_(report.step, rate, rate * examples_per_step);
}

}  // namespace troupe
