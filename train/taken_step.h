// TakenStep: the step that a loop has just taken. Its losses are summed over the workers when
// somebody first asks, and callbacks hear of it once, where the loop continues.
#pragma once

#include <optional>
#include <vector>

#include "troupe/strategies/strategy.h"
#include "troupe/train/callback_list.h"

namespace troupe::detail {

class TakenStep {
 public:
  /// `strategy` outlives it.
  explicit TakenStep(Strategy& strategy) : strategy_(strategy) {}

  /// In the place of the step before. `report` has no losses yet.
  void take(StepReport report, std::vector<StepResult> results);
  /// Means over all workers. Collective: the first time after a step. Throws: ConfigError before
  /// the first step.
  const LossValues& losses();
  /// Tells `callbacks` of the step, once; returns whether there was one. Collective: where one of
  /// them wants the losses.
  bool tell(CallbackList& callbacks, RunControl& run);

 private:
  Strategy& strategy_;
  StepReport report_;
  std::vector<StepResult> results_;
  std::optional<LossValues> losses_;  // once they were asked for
  bool told_ = true;
};

}  // namespace troupe::detail
