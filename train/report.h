// Report: what one pass over a data set came to, over all workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hooks/phase.h"
#include "hooks/values.h"

namespace troupe {

struct Report {
  Phase phase = Phase::test;
  std::int64_t examples = 0;  // each counted once
  LossValues losses;          // means over examples
  std::vector<MetricValue> metrics;
  double seconds = 0;
};

/// "validation: examples = 5000, loss = 0.0712, accuracy = 0.9795"
[[nodiscard]] std::string to_line(const Report& report);

}  // namespace troupe
