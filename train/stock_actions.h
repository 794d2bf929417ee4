// The actions that the options ask for: log, progress bar, metrics file, summaries.
#pragma once

#include <cstdint>

#include "core/clock.h"
#include "options/train_options.h"
#include "train/callbacks/periodic_action.h"

namespace troupe::detail {

/// Where a run starts and where it would end.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// For the chief. `clock` outlives them.
[[nodiscard]] Actions stock_actions(const TrainOptions& options, const StepRange& steps,
                                    const Clock& clock);

/// Whether the stock actions want the losses of this step; the same on every worker.
[[nodiscard]] bool stock_wants_losses(const TrainOptions& options, std::int64_t step,
                                      std::int64_t first_step);

}  // namespace troupe::detail
