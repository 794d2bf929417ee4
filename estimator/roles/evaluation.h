// Evaluation: what evaluating one checkpoint came to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct Evaluation {
  std::int64_t global_step = 0;  // of the checkpoint
  /// "loss" (the mean of the batches' losses, as Estimator reports it), "average_loss" (the mean
  /// over examples), a task's further losses and its metrics.
  std::vector<std::pair<std::string, double>> metrics;

  /// Throws: ConfigError that lists the names there are.
  [[nodiscard]] double at(const std::string& name) const;
};

/// "accuracy = 0.98, average_loss = 0.06, global_step = 600, loss = 0.061": by name.
[[nodiscard]] std::string to_line(const Evaluation& evaluation);

}  // namespace troupe
