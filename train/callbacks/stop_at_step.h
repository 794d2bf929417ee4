// StopAtStep: training ends at a step. TrainOptions has the same as max_steps and steps; as an
// action it goes with others in a list that a program puts together.
#pragma once

#include <cstdint>
#include <optional>

#include "train/callbacks/periodic_action.h"

namespace troupe {

class StopAtStep final : public PeriodicAction {
 public:
  /// One of the two.
  struct Limit {
    std::optional<std::int64_t> num_steps;  // this many more than the run starts with
    std::optional<std::int64_t> last_step;  // absolute
  };

  /// Throws: ConfigError where both or neither are given, or the one is below 1.
  explicit StopAtStep(const Limit& limit);
  /// A run that starts at the last step or behind it takes no step.
  void ready(RunControl& run) override;
  void after_step(const StepReport& report, RunControl& run) override;

 private:
  void stop_if_reached(std::int64_t step, RunControl& run) const;

  Limit limit_;
  std::int64_t last_step_ = 0;  // of this run
};

}  // namespace troupe
