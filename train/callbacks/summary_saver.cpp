#include "troupe/train/callbacks/summary_saver.h"

#include <string>
#include <utility>

#include "troupe/core/log.h"
#include "troupe/report/summary_writer.h"

namespace troupe {
namespace {

constexpr int kPatience = 20;  // as Estimator's: a value read too early may well repeat once

/// "validation/accuracy": TensorBoard shows the values of a phase together.
void add(std::vector<Scalar>& scalars, const Report& report) {
  const std::string phase = to_string(report.phase);
  for (const auto& [name, value] : report.losses) scalars.push_back({phase + "/" + name, value});
  for (const MetricValue& metric : report.metrics) {
    scalars.push_back({phase + "/" + metric.name, metric.value});
  }
}

}  // namespace

SummarySaver::SummarySaver(const Every& every, Sink sink, const Clock& clock, Extra extra,
                           std::optional<std::int64_t> last_step, bool everywhere)
    : every_(every),
      timer_(every, clock, "SummarySaver"),
      sink_(std::move(sink)),
      extra_(std::move(extra)),
      last_step_(last_step),
      everywhere_(everywhere) {}

SummarySaver::SummarySaver(const Every& every, SummaryWriter& writer, const Clock& clock,
                           Extra extra)
    : SummarySaver(
          every,
          [&writer](std::int64_t step, const std::vector<Scalar>& scalars) {
            writer.write(step, scalars);
          },
          clock, std::move(extra)) {}

bool SummarySaver::wants_losses(std::int64_t step, bool /*first*/) const {
  return every_.seconds || step == last_step_ || is_summary_step(step, *every_.steps);
}

void SummarySaver::ready(RunControl& run) {
  step_ = run.step();
  writes_ = everywhere_ || run.is_chief();
}

void SummarySaver::after_step(const StepReport& report, RunControl& run) {
  const std::int64_t passed = report.step - std::exchange(step_, report.step);
  writes_ = everywhere_ || run.is_chief();
  if (!writes_ || !is_due(report.step, passed)) return;
  timer_.mark(report.step);
  std::vector<Scalar> scalars;
  for (const auto& [name, value] : report.losses) scalars.push_back({name, value});
  if (report.learning_rate) scalars.push_back({"learning_rate", *report.learning_rate});
  if (extra_) {
    for (Scalar& scalar : extra_()) scalars.push_back(std::move(scalar));
  }
  if (!scalars.empty()) sink_(report.step, scalars);
}

void SummarySaver::after_epoch(std::int64_t /*epoch*/, const Report& train,
                               const Report* validation) {
  if (!writes_) return;
  std::vector<Scalar> scalars;
  add(scalars, train);
  if (validation != nullptr) add(scalars, *validation);
  if (!scalars.empty()) sink_(step_, scalars);
}

bool SummarySaver::is_due(std::int64_t step, std::int64_t passed) const {
  if (step == last_step_) return true;
  return every_.steps ? is_summary_step(step, *every_.steps, passed) : timer_.due(step);
}

StepCounter::StepCounter(const Every& every, Output output, const Clock& clock)
    : every_(every), timer_(every, clock, "StepCounter"), output_(std::move(output)) {}

void StepCounter::begin() {
  timer_.reset();
  last_step_.reset();
  examples_ = steps_ = 0;
  checks_without_increase_ = 0;
}

void StepCounter::after_step(const StepReport& report, RunControl& /*run*/) {
  const std::int64_t passed = report.step - last_step_.value_or(report.step - 1);
  watch(report.step);
  examples_ += report.examples;
  ++steps_;
  const bool begins = !timer_.last_step();
  const bool due =
      every_.steps ? is_summary_step(report.step, *every_.steps, passed) : timer_.due(report.step);
  if (!begins && !due) return;
  const auto [seconds, steps] = timer_.mark(report.step);
  const double examples_per_step = static_cast<double>(std::exchange(examples_, 0)) /
                                   static_cast<double>(std::exchange(steps_, 0));
  if (!seconds || !steps || seconds->count() <= 0) return;
  const double rate = static_cast<double>(*steps) / seconds->count();
  output_(report.step, rate, rate * examples_per_step);
}

void StepCounter::watch(std::int64_t step) {
  checks_without_increase_ = last_step_ == step ? checks_without_increase_ + 1 : 0;
  last_step_ = step;
  if (checks_without_increase_ < kPatience) return;
  checks_without_increase_ = 0;
  log_warning("the step has been ", step, " for ", kPatience,
              " checks in a row; the loop that runs the steps must count them.");
}

}  // namespace troupe
