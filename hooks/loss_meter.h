// LossMeter: the mean loss over the examples of many steps. It adds up loss times examples of the
// step, so a short last batch weighs what it holds; a mean of step means would not. A loss that
// only some steps return is the mean over the examples of those.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hooks/loss_set.h"

namespace troupe {

/// One loss added up over steps.
struct LossSum {
  std::string name;
  double total = 0;           // of loss * examples
  std::int64_t examples = 0;  // of the steps that returned it, over all workers
};

class LossMeter {
 public:
  /// Adds the results of this worker's replicas in one step of `global_examples` examples.
  /// No communication; on a device, the host does not wait.
  void add(const std::vector<StepResult>& results, std::int64_t global_examples);

  /// Over this worker's replicas, in the order in which the losses first came.
  [[nodiscard]] std::vector<LossSum> sums() const;
  /// Continues from what sums() and examples() gave.
  void restore(const std::vector<LossSum>& sums, std::int64_t examples);
  /// Of all steps, over all workers.
  [[nodiscard]] std::int64_t examples() const { return examples_; }

 private:
  struct Entry {
    std::string name;
    at::Tensor total;  // scalar, float64
    std::int64_t examples = 0;
  };
  std::vector<Entry> entries_;
  std::int64_t examples_ = 0;
};

}  // namespace troupe
