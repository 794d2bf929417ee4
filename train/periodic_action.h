// PeriodicAction: what happens around the steps, logging for one. Actions see reduced values only,
// so what they decide is the same on every worker.
#pragma once

#include <cstdint>

#include "train/report.h"

namespace troupe {

/// A step, seen from outside. The loss is there on logged steps only: reducing it is a message.
struct StepReport {
  std::int64_t step = 0;      // optimiser updates so far, this one included
  std::int64_t epoch = 0;     // from 0
  std::int64_t examples = 0;  // of this step, over all workers
  LossValues losses;          // over all workers; empty when the step is not logged
};

class PeriodicAction {
 public:
  virtual ~PeriodicAction() = default;
  /// Called after every step.
  virtual void after_step(const StepReport& report) = 0;
  /// Called after every epoch, with the epoch's training report and, where there is validation
  /// data, its report.
  virtual void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) = 0;
};

}  // namespace troupe
