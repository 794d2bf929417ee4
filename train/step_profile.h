// StepProfile: --profile N. Records N steps of a run on every worker, after the first ones, which
// warm up, and writes them as one file that shows all workers on one time axis.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <optional>
#include <string>

#include "troupe/core/options/train_options.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/callbacks/profile_file.h"

namespace troupe::detail {

class StepProfile final : public PeriodicAction {
 public:
  static constexpr std::int64_t kWarmUp = 3;  // steps of a run before those that are recorded

  /// Of `options.profile_steps` steps, at least 1. Both outlive this object.
  StepProfile(Strategy& strategy, const TrainOptions& options)
      : strategy_(strategy), options_(options) {}
  ~StepProfile() override;

  void before_step(RunControl& run) override;
  /// After the last of the steps it gathers what the workers recorded, and the chief writes
  /// <model_dir>/profile-<step>.json. Collective: then. If workers go at their own pace, each
  /// writes its own.  Throws: EnvironmentError if it cannot be written.
  void after_step(const StepReport& report, RunControl& run) override;
  /// The same for a run that ended among the steps.
  void end(RunControl& run) override;

 private:
  void finish();
  [[nodiscard]] std::string path() const;

  Strategy& strategy_;
  const TrainOptions& options_;
  std::optional<at::CallbackHandle> operators_;  // traces them while steps are recorded
  std::int64_t begun_ = 0;                       // steps of this run
  std::int64_t recorded_ = 0;
  std::int64_t step_start_ = 0;
  ProfiledSteps steps_;
};

}  // namespace troupe::detail
