// What rules about metrics see of a report, and when one of early stopping says stop.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "troupe/core/options/metric_rules.h"
#include "troupe/hooks/report.h"
#include "troupe/report/summary_reader.h"

namespace troupe {

/// A value to choose by.
struct Judged {
  double value = 0;
  Better better = Better::lower;  // known
};
/// The loss or metric that the rule names. `flag` stands for the rule in messages: "--best".
/// Throws: ConfigError if the report has none of that name, or if neither the rule nor the metric
/// says which of two values is better.
[[nodiscard]] Judged judged(const Report& report, const MetricRule& rule, const char* flag);

/// "loss has not decreased for 500 steps ...", or nothing.
using StopReason = std::optional<std::string>;

/// What a rule remembers of the values before; a NaN is never the best, and reaches nothing.
struct BestSoFar {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::int64_t step = -1;  // of the best one, or of the first; below 0: there was none
};

/// Whether the rule's value of `step` is a reason to stop. `best` is brought up to date.
/// Throws: ConfigError for a rule that does not say which way is better, or that is none.
[[nodiscard]] StopReason stop_reason(const StopRule& rule, std::int64_t step, double value,
                                     BestSoFar& best);

/// Whether a history of evaluations holds a reason to stop, at any of its steps from `min_steps`
/// on. The metric may be missing at some of them; an empty history is no reason.
/// Throws: as above; ConfigError if a history has steps, but the metric at none of them.
[[nodiscard]] StopReason stop_reason(const StopRule& rule, const ScalarHistory& history,
                                     std::int64_t min_steps = 0);

}  // namespace troupe
