// Early stopping: training ends when a predicate gives a reason. The predicate runs on the chief
// alone, but all workers agree on the stop, so they end after the same step.
//
//   make_early_stopping(
//       [dir] { return stop_if_no_decrease(read_scalars(dir), "loss", 500); },
//       Every::n_seconds(60), clock);
//
// The decision is not saved: a run that resumes after it asks again at its first step, and stops
// again unless the history or the condition has changed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "summaries/summary_reader.h"
#include "train/callbacks/callbacks.h"
#include "train/callbacks/step_timer.h"

namespace troupe {

// Whether a history of evaluations is a reason to stop: pure functions for early stopping's
// predicates. Each returns the reason, "loss has not decreased for 500 steps ...", or nothing.
//
// All: only evaluations at `min_steps` and later count; a value that is NaN is never better and
// never beyond a threshold; an empty history is no reason. `metric` may be missing at some steps.
// Throws: ConfigError if a history has steps but the metric at none of them.

using StopReason = std::optional<std::string>;

/// At some evaluation the best (smallest) value so far was at least `max_steps` steps old.
/// Throws: also ConfigError if `max_steps` is below 1.
[[nodiscard]] StopReason stop_if_no_decrease(const ScalarHistory& history,
                                             const std::string& metric, std::int64_t max_steps,
                                             std::int64_t min_steps = 0);
/// The same, with the largest value as the best.
[[nodiscard]] StopReason stop_if_no_increase(const ScalarHistory& history,
                                             const std::string& metric, std::int64_t max_steps,
                                             std::int64_t min_steps = 0);
/// Some value was below `threshold`.
[[nodiscard]] StopReason stop_if_lower(const ScalarHistory& history, const std::string& metric,
                                       double threshold, std::int64_t min_steps = 0);
/// Some value was above `threshold`.
[[nodiscard]] StopReason stop_if_higher(const ScalarHistory& history, const std::string& metric,
                                        double threshold, std::int64_t min_steps = 0);

/// The reason to stop, or nothing. Starts no collective.
using StopPredicate = std::function<StopReason()>;

/// Calls the predicate after the run's first step, then once a period. `clock` outlives the action.
/// Throws: ConfigError for a bad `every`, or without a predicate.
[[nodiscard]] std::shared_ptr<PeriodicAction> make_early_stopping(StopPredicate predicate,
                                                                  const Every& every,
                                                                  const Clock& clock);

}  // namespace troupe
