// StepLosses: whether an elastic group makes progress. What kills every worker that computes it, an
// example or a machine, would otherwise take one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Losses while one and the same step was computed. Outlives the group: a step that has killed all
/// workers may kill them again after a restart from a checkpoint.
class StepLosses {
 public:
  static constexpr int kMost = 3;

  /// A round was lost after `step`, the last one complete. `lost`: who is gone, each with what it
  /// was computing. Workers that are lost together count once: they tried the step once.
  void add(std::int64_t step, const std::vector<std::string>& lost);
  /// The same step has been lost kMost times in a row.
  [[nodiscard]] bool is_over() const { return count_ >= kMost; }
  /// "step 121 was lost 3 times in a row: worker/1 (examples 17, 99); worker/0; worker/2"
  [[nodiscard]] std::string summary() const;

 private:
  std::int64_t step_ = -1;
  int count_ = 0;
  std::vector<std::string> lost_;
};

}  // namespace troupe
