#include "train/callbacks/step_counter.h"

#include <utility>

#include "core/log.h"

namespace troupe {
namespace {

constexpr int kPatience = 20;  // as Estimator's: a value read too early may well repeat once

Every checked_count_period(const Every& every) {
  every.validate("StepCounter");
  return every;
}

}  // namespace

StepCounter::StepCounter(const Every& every, Output output, const Clock& clock)
    : timer_(checked_count_period(every), clock), output_(std::move(output)) {}

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
              " checks in a row; whoever runs the steps must count them.");
}

}  // namespace troupe
