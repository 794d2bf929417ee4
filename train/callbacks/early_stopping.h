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

#include <functional>
#include <memory>

#include "train/callbacks/periodic_action.h"
#include "train/callbacks/step_timer.h"
#include "train/callbacks/stop_conditions.h"

namespace troupe {

/// The reason to stop, or nothing. Starts no collective.
using StopPredicate = std::function<StopReason()>;

/// Asks after the run's first step, then once a period. `clock` outlives the action.
/// Throws: ConfigError for a bad `every`, or without a predicate.
[[nodiscard]] std::shared_ptr<PeriodicAction> make_early_stopping(StopPredicate predicate,
                                                                  const Every& every,
                                                                  const Clock& clock);

}  // namespace troupe
