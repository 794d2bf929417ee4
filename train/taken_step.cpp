#include "troupe/train/taken_step.h"

#include <utility>

#include "troupe/core/error.h"

namespace troupe::detail {

void TakenStep::take(StepReport report, std::vector<StepResult> results) {
  report_ = std::move(report);
  results_ = std::move(results);
  losses_.reset();
  told_ = false;
}

const LossValues& TakenStep::losses() {
  if (results_.empty()) {
    throw ConfigError("losses() was called before the first step of the run.",
                      "call it after a step that returned true.");
  }
  if (!losses_) losses_ = strategy_.reduce(results_);
  return *losses_;
}

bool TakenStep::tell(CallbackList& callbacks, RunControl& run) {
  if (std::exchange(told_, true)) return false;
  if (callbacks.wants_losses(report_.step)) (void)losses();
  report_.losses = losses_.value_or(LossValues());
  callbacks.after_step(report_, run);
  return true;
}

}  // namespace troupe::detail
