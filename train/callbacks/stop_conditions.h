// Whether a history of evaluations is reason to stop: pure functions for early stopping's
// predicates. Each answers with the reason, "loss has not decreased for 500 steps ...", or nothing.
//
// All: only evaluations at `min_steps` and later count; a value that is NaN is never better and
// never beyond a threshold; an empty history is no reason. `metric` may be missing at some steps.
// Throws: ConfigError where a history has steps but the metric at none of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "summaries/summary_reader.h"

namespace troupe {

using StopReason = std::optional<std::string>;

/// At some evaluation the best value so far, the smallest, was `max_steps` steps old or older.
/// Throws: also ConfigError where `max_steps` is below 1.
[[nodiscard]] StopReason stop_if_no_decrease(const ScalarHistory& history,
                                             const std::string& metric, std::int64_t max_steps,
                                             std::int64_t min_steps = 0);
/// The same, the best being the largest.
[[nodiscard]] StopReason stop_if_no_increase(const ScalarHistory& history,
                                             const std::string& metric, std::int64_t max_steps,
                                             std::int64_t min_steps = 0);
/// Some value was below `threshold`.
[[nodiscard]] StopReason stop_if_lower(const ScalarHistory& history, const std::string& metric,
                                       double threshold, std::int64_t min_steps = 0);
/// Some value was above `threshold`.
[[nodiscard]] StopReason stop_if_higher(const ScalarHistory& history, const std::string& metric,
                                        double threshold, std::int64_t min_steps = 0);

}  // namespace troupe
