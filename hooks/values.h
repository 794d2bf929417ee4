// Losses and metrics as numbers, free of LibTorch, for reports, logs and actions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/core/options/metric_rules.h"

namespace troupe {

/// Losses by name, in the order in which the step returned them.
using LossValues = std::vector<std::pair<std::string, double>>;

/// The result of one metric.
struct MetricValue {
  std::string name;
  double value = 0;
  std::vector<std::pair<std::string, double>> sums;  // {"correct", 9812}, {"examples", 10000}
  Better better = Better::unknown;
};

}  // namespace troupe
