// LossMeter: the mean loss over the examples of many steps. It adds up loss times examples of the
// step, so a short last batch weighs what it holds; a mean of step means would not.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hooks/step_result.h"
#include "hooks/values.h"

namespace troupe {

class LossMeter {
 public:
  /// Adds the results of this worker's replicas in one step of `global_examples` examples.
  /// No communication; on a device, the host does not wait.
  void add(const std::vector<StepResult>& results, std::int64_t global_examples);

  /// Sum over this worker's replicas of loss * examples, by name, in the order of the first step.
  [[nodiscard]] LossValues sums() const;
  /// Goes on from what sums() and examples() gave.
  void restore(const LossValues& sums, std::int64_t examples);
  /// Examples of all steps, over all workers.
  [[nodiscard]] std::int64_t examples() const { return examples_; }

 private:
  std::vector<std::pair<std::string, at::Tensor>> sums_;  // scalars, float64
  std::int64_t examples_ = 0;
};

}  // namespace troupe
