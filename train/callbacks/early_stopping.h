// Early stopping: training ends when a predicate gives a reason. The predicate runs on the chief
// alone, but all workers agree on the stop, so they end after the same step.
//
//   make_early_stopping([dir] { return stop_reason({{"loss"}, 500}, read_scalars(dir)); },
//                       Every::n_seconds(60), clock);
//
// The predicate's decision is not saved: a run that resumes after it asks again at its first step,
// and stops again unless the history or the condition has changed.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "troupe/core/options/metric_rules.h"
#include "troupe/report/summary_reader.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/callbacks/step_timer.h"

namespace troupe {

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

/// The reason to stop, or nothing. Starts no collective.
using StopPredicate = std::function<StopReason()>;

/// Calls the predicate after the run's first step, then once a period. `clock` outlives the action.
/// Throws: ConfigError for a bad `every`, or without a predicate.
[[nodiscard]] std::shared_ptr<PeriodicAction> make_early_stopping(StopPredicate predicate,
                                                                  const Every& every,
                                                                  const Clock& clock);

}  // namespace troupe
