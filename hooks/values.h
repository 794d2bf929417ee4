// Losses and metrics as numbers, free of LibTorch: what reports, logs and actions pass on.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Losses by name, in the order in which the step returned them.
using LossValues = std::vector<std::pair<std::string, double>>;

/// What one metric came to.
struct MetricValue {
  std::string name;
  double value = 0;
  std::vector<std::pair<std::string, double>> sums;  // {"correct", 9812}, {"examples", 10000}
};

}  // namespace troupe
