// Evaluation: the result of evaluating one checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "troupe/hooks/values.h"

namespace troupe {

struct Evaluation {
  std::int64_t global_step = 0;  // of the checkpoint
  /// "loss" (the mean of the batches' losses, as Estimator reports it), "average_loss" (the mean
  /// over examples), a task's further losses and its metrics.
  std::vector<std::pair<std::string, double>> metrics;
  /// Which way each is better, where that is known; not kept in files.
  std::map<std::string, Better> better = {};

  /// Throws: ConfigError listing the existing names.
  [[nodiscard]] double at(const std::string& name) const;
};

/// "accuracy = 0.98, average_loss = 0.06, global_step = 600, loss = 0.061": by name.
[[nodiscard]] std::string to_line(const Evaluation& evaluation);

}  // namespace troupe
