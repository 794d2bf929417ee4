// Losses and metrics as numbers, free of LibTorch, for reports, logs and actions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Losses by name, in the order in which the step returned them.
using LossValues = std::vector<std::pair<std::string, double>>;

/// Which of two values of a metric is better. Losses: the lower one.
enum class Better { unknown, lower, higher };

/// The result of one metric.
struct MetricValue {
  std::string name;
  double value = 0;
  std::vector<std::pair<std::string, double>> sums;  // {"correct", 9812}, {"examples", 10000}
  Better better = Better::unknown;
};

}  // namespace troupe
