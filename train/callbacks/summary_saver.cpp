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

bool is_summary_step(std::int64_t step, std::int64_t first_step_of_run,
                     std::int64_t save_summary_steps) {
  return save_summary_steps > 0 && step >= first_step_of_run &&
         (step - first_step_of_run) % save_summary_steps == 0;
}

SummarySaver::SummarySaver(const Every& every, Sink sink, const Clock& clock, Extra extra,
                           std::optional<std::int64_t> last_step)
    : every_(every),
      timer_(every, clock, "SummarySaver"),
      sink_(std::move(sink)),
      extra_(std::move(extra)),
      last_step_(last_step) {}

SummarySaver::SummarySaver(const Every& every, SummaryWriter& writer, const Clock& clock,
                           Extra extra)
    : SummarySaver(
          every,
          [&writer](std::int64_t step, const std::vector<Scalar>& scalars) {
            writer.write(step, scalars);
          },
          clock, std::move(extra)) {}

bool SummarySaver::wants_losses(std::int64_t step, bool first) const {
  return first || every_.seconds || step == last_step_ ||
         is_summary_step(step, first_step_, *every_.steps);
}

void SummarySaver::ready(RunControl& run) {
  step_ = run.step();
  first_step_ = step_ + 1;
  writes_ = run.is_chief();
}

void SummarySaver::after_step(const StepReport& report, RunControl& run) {
  step_ = report.step;
  if (!run.is_chief() || !is_due(report.step)) return;
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

bool SummarySaver::is_due(std::int64_t step) const {
  if (step == last_step_) return true;
  if (!every_.steps) return timer_.due(step);
  const auto last = timer_.last_step();
  if (!last || step == first_step_) return *every_.steps > 0 && step >= first_step_;
  // Where other workers take some of the steps, the first one after.
  return (step - first_step_) / *every_.steps > (*last - first_step_) / *every_.steps;
}

StepCounter::StepCounter(const Every& every, Output output, const Clock& clock)
    : timer_(every, clock, "StepCounter"), output_(std::move(output)) {}

void StepCounter::begin() {
  timer_.reset();
  last_step_.reset();
  examples_ = steps_ = 0;
  checks_without_increase_ = 0;
}

void StepCounter::after_step(const StepReport& report, RunControl& /*run*/) {
  watch(report.step);
  examples_ += report.examples;
  ++steps_;
  if (!timer_.due(report.step)) return;
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
