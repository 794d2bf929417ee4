#include "troupe/train/validation_watch.h"

#include <limits>
#include <string>

#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr const char* kStopFlag = "--early-stopping";

}  // namespace

void ValidationWatch::check(const Report& validation) const {
  for (const StopRule& rule : options_.early_stopping) (void)judged(validation, rule.by, kStopFlag);
  (void)best(validation);
}

StopReason ValidationWatch::stop_reason(const Report& validation) {
  if (state_.step < options_.min_steps) return std::nullopt;
  for (StopRule rule : options_.early_stopping) {
    const Judged seen = judged(validation, rule.by, kStopFlag);
    const std::string name = text(kStopFlag, " ", to_text(rule));
    rule.by.better = seen.better;
    double& value =
        state_.kept.try_emplace(name + " best", std::numeric_limits<double>::quiet_NaN())
            .first->second;
    double& step = state_.kept.try_emplace(name + " step", -1).first->second;
    BestSoFar best{value, static_cast<std::int64_t>(step)};
    const StopReason reason = troupe::stop_reason(rule, state_.step, seen.value, best);
    value = best.value;
    step = static_cast<double>(best.step);
    if (reason) return reason;
  }
  return std::nullopt;
}

std::optional<Judged> ValidationWatch::best(const Report& validation) const {
  if (!options_.best) return std::nullopt;
  return judged(validation, *options_.best, "--best");
}

}  // namespace troupe::detail
