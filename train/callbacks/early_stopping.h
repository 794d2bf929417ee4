// Early stopping: training ends when a predicate gives a reason. The predicate runs on the chief
// alone, but all workers agree on the stop, so they end after the same step.
//
//   make_early_stopping({{"loss"}, 500}, estimator.evaluation_directory(""), Every::n_seconds(60));
//
// The predicate's decision is not saved: a run that resumes after it asks again at its first step,
// and stops again unless the history or the condition has changed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/core/options/metric_rules.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/callbacks/every.h"

namespace troupe {

class Clock;
[[nodiscard]] const Clock& steady_clock();  // core/clock.h

/// Calls `predicate` after the run's first step, then once a period: the reason to stop, or
/// nothing. It starts no collective. `clock` outlives the action. Throws: ConfigError for a bad
/// `every`, or without a predicate.
[[nodiscard]] std::shared_ptr<PeriodicAction> make_early_stopping(
    std::function<std::optional<std::string>()> predicate, const Every& every,
    const Clock& clock = steady_clock());
/// The same by what the evaluations of `directory` have come to (Estimator::evaluation_directory).
/// The metric may be missing at some of them. Throws also, when it looks: ConfigError if `rule`
/// does not say which way is better or is none, or if there are evaluations, but none has the
/// metric.
[[nodiscard]] std::shared_ptr<PeriodicAction> make_early_stopping(
    StopRule rule, std::string directory, const Every& every, const Clock& clock = steady_clock());

}  // namespace troupe
