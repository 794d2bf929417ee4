// FakeRun: a run without a training loop, for testing actions by hand.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe::testing {

class FakeRun final : public RunControl {
 public:
  explicit FakeRun(std::int64_t steps_done = 0) : steps_done_(steps_done) {}

  [[nodiscard]] std::int64_t step() const override { return steps_done_; }
  [[nodiscard]] bool is_chief() const override { return true; }
  [[nodiscard]] Replica& replica() override {
    if (replica_ == nullptr) throw InternalError("this run has no replica.", "set_replica.");
    return *replica_;
  }
  void request_stop(const std::string& reason) override { reasons_.push_back(reason); }

  void set_step(std::int64_t steps_done) { steps_done_ = steps_done; }
  void set_replica(Replica& replica) { replica_ = &replica; }
  /// All that was asked for, in order.
  [[nodiscard]] const std::vector<std::string>& reasons() const { return reasons_; }
  [[nodiscard]] bool stops() const { return !reasons_.empty(); }

  /// One step as the training loop takes it.
  void take_step(PeriodicAction& action, LossValues losses = {}) {
    action.before_step(*this);
    ++steps_done_;
    action.after_step({steps_done_, 0, 1, std::move(losses)}, *this);
  }

 private:
  std::int64_t steps_done_;
  Replica* replica_ = nullptr;
  std::vector<std::string> reasons_;
};

}  // namespace troupe::testing
