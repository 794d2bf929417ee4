// Summaries of the steps and epochs, for TensorBoard and for readers of summaries.jsonl: losses,
// metrics and speed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/report/event_message.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/callbacks/step_timer.h"

namespace troupe {

/// Step 1 and every `save_summary_steps` after it: 1, 101, 201 ... 0: none. It depends on the step
/// alone, so a resumed run has the summaries of an uninterrupted one. Where other workers take some
/// of the steps, `passed` since the one seen before: the first one after that.
[[nodiscard]] constexpr bool is_summary_step(std::int64_t step, std::int64_t save_summary_steps,
                                             std::int64_t passed = 1) {
  const std::int64_t every = save_summary_steps;
  return every > 0 && (step + every - 1) / every > (step - passed + every - 1) / every;
}

/// The losses, and the learning rate if a schedule changes it; at the end of an epoch its report's
/// losses and metrics as "train/loss", and those of its validation as "validation/accuracy".
class SummarySaver final : public PeriodicAction {
 public:
  using Sink = std::function<void(std::int64_t step, const std::vector<Scalar>& scalars)>;

  /// At the summary steps of `every`, at least 1, and at `last_step`, if training gets there. On
  /// every worker; the sink decides who writes.
  SummarySaver(std::int64_t every, std::int64_t last_step, Sink sink)
      : every_(every), last_step_(last_step), sink_(std::move(sink)) {}
  void ready(RunControl& run) override { step_ = run.step(); }
  void after_step(const StepReport& report, RunControl& run) override;
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;
  void after_log(std::int64_t step, std::int64_t, const std::string& name, double value) override {
    sink_(step, {{name, value}});
  }

 private:
  const std::int64_t every_;
  const std::int64_t last_step_;
  const Sink sink_;
  std::int64_t step_ = 0;  // the last one seen
};

/// How fast training is, once a period.
class StepCounter final : public PeriodicAction {
 public:
  /// Receives the step and the speed over the past period. Where workers go at their own pace, all
  /// steps count, with as many examples as the chief's.
  using Output =
      std::function<void(std::int64_t step, double steps_per_second, double examples_per_second)>;

  /// The first output follows after one period, where a summary of `every` steps is due. `clock`
  /// outlives this object.
  StepCounter(std::int64_t every, Output output, const Clock& clock)
      : every_(every), timer_(Every::n_steps(every), clock), output_(std::move(output)) {}
  void after_step(const StepReport& report, RunControl& run) override;

 private:
  const std::int64_t every_;
  StepTimer timer_;
  Output output_;
  std::optional<std::int64_t> last_step_;
  std::int64_t examples_ = 0;  // of the period, in this worker's steps
  std::int64_t steps_ = 0;     // of this worker
};

}  // namespace troupe
