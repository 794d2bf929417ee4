// Early stopping: training ends when a predicate has a reason for it. The predicate runs on the
// chief alone; the stop is agreed on by all workers, so they end after the same step.
//
//   make_early_stopping(
//       [dir] { return stop_if_no_decrease(read_scalars(dir), "loss", 500); },
//       Every::n_seconds(60), clock);
//
// The decision is not kept: a run that goes on after it asks anew at its first step, and stops
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

// Whether a history of evaluations is reason to stop: pure functions for early stopping's
// predicates. Each answers with the reason, "loss has not decreased for 500 steps ...", or nothing.
//
// All: only evaluations at `min_steps` and later count; a value that is NaN is never better and
// never beyond a threshold; an empty history is no reason. `metric` may be missing at some steps.
// Throws: ConfigError where a history has steps but the metric at none of them.

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

/// The reason to stop, or nothing. Starts no collective.
using StopPredicate = std::function<StopReason()>;

/// Asks after the run's first step, then once a period. `clock` outlives the action.
/// Throws: ConfigError for a bad `every`, or without a predicate.
[[nodiscard]] std::shared_ptr<PeriodicAction> make_early_stopping(StopPredicate predicate,
                                                                  const Every& every,
                                                                  const Clock& clock);

}  // namespace troupe
