// History: what a run of training came to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/report.h"

namespace troupe {

/// Equal on every worker but for the seconds and the reason. At an own pace (parameter servers)
/// everything is this worker's own, and the chief alone validates.
struct History {
  std::int64_t epochs = 0;           // complete ones
  std::int64_t steps = 0;            // of this run
  std::int64_t examples = 0;         // of this run, over all workers
  double seconds = 0;                // of training; validation not counted
  std::optional<Report> train;       // of the last epoch, complete or not
  std::optional<Report> validation;  // the last one
  std::string reason;                // why it ended: "max_steps 600 is reached"
};

}  // namespace troupe
