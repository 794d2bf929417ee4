// StopAt: an action that asks to end training at a step, as a user's own would.
#pragma once

#include <cstdint>

#include "troupe/train/callbacks/callbacks.h"

namespace troupe::testing {

class StopAt final : public PeriodicAction {
 public:
  explicit StopAt(std::int64_t step) : step_(step) {}
  void ready(RunControl& run) override { look(run); }
  void after_step(const StepReport& /*report*/, RunControl& run) override { look(run); }

 private:
  void look(RunControl& run) const {
    if (run.step() >= step_) run.request_stop("the last step is taken");
  }
  const std::int64_t step_;
};

}  // namespace troupe::testing
