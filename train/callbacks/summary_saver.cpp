#include "train/callbacks/summary_saver.h"

#include <utility>

#include "core/log.h"
#include "summaries/summary_writer.h"

namespace troupe {
namespace {

constexpr int kPatience = 20;  // as Estimator's: a value read too early may well repeat once

}  // namespace

bool is_summary_step(std::int64_t step, std::int64_t first_step_of_run,
                     std::int64_t save_summary_steps) {
  return save_summary_steps > 0 && step >= first_step_of_run &&
         (step - first_step_of_run) % save_summary_steps == 0;
}

SummarySaver::SummarySaver(const Every& every, Sink sink, const Clock& clock, Extra extra)
    : every_(every),
      timer_(every, clock, "SummarySaver"),
      sink_(std::move(sink)),
      extra_(std::move(extra)) {}

SummarySaver::SummarySaver(const Every& every, SummaryWriter& writer, const Clock& clock,
                           Extra extra)
    : SummarySaver(
          every,
          [&writer](std::int64_t step, const std::vector<Scalar>& scalars) {
            writer.write(step, scalars);
          },
          clock, std::move(extra)) {}

bool SummarySaver::wants_losses(std::int64_t step, bool first) const {
  return first || every_.seconds || is_summary_step(step, first_step_, *every_.steps);
}

void SummarySaver::ready(RunControl& run) { first_step_ = run.step() + 1; }

void SummarySaver::after_step(const StepReport& report, RunControl& run) {
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

bool SummarySaver::is_due(std::int64_t step) const {
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
  checks_without_increase_ = 0;
}

void StepCounter::after_step(const StepReport& report, RunControl& /*run*/) {
  watch(report.step);
  if (!timer_.due(report.step)) return;
  const auto [seconds, steps] = timer_.mark(report.step);
  if (!seconds || !steps || seconds->count() <= 0) return;
  output_(report.step, static_cast<double>(*steps) / seconds->count());
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
