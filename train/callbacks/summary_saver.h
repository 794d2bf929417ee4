// Summaries of the steps and epochs, for TensorBoard and for readers of summaries.jsonl: losses,
// metrics and speed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "troupe/report/event_message.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/callbacks/step_timer.h"

namespace troupe {

class SummaryWriter;

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
/// Written on the chief; the action must still be in every worker's list, because the losses are
/// reduced for it.
class SummarySaver final : public PeriodicAction {
 public:
  using Sink = std::function<void(std::int64_t step, const std::vector<Scalar>& scalars)>;
  using Extra = std::function<std::vector<Scalar>()>;

  /// `extra` adds the user's own scalars, on the chief; null: none. With a period in seconds the
  /// workers cannot know when the chief writes, so the losses of every step are reduced: a message
  /// a step. `last_step` is written in any case, if training gets there; unset: only by `every`.
  /// `everywhere`: the sink is called on every worker, and decides who writes.
  /// `clock` outlives this object. Throws: ConfigError for a bad `every`.
  SummarySaver(const Every& every, Sink sink, const Clock& clock, Extra extra = nullptr,
               std::optional<std::int64_t> last_step = std::nullopt, bool everywhere = false);
  /// `writer` outlives this object.
  SummarySaver(const Every& every, SummaryWriter& writer, const Clock& clock,
               Extra extra = nullptr);
  [[nodiscard]] bool wants_losses(std::int64_t step, bool first) const override;
  void begin() override { timer_.reset(); }
  void ready(RunControl& run) override;
  void after_step(const StepReport& report, RunControl& run) override;
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;
  void after_log(std::int64_t step, std::int64_t, const std::string& name, double value) override {
    sink_(step, {{name, value}});
  }

 private:
  [[nodiscard]] bool is_due(std::int64_t step, std::int64_t passed) const;

  Every every_;
  StepTimer timer_;
  Sink sink_;
  Extra extra_;
  std::optional<std::int64_t> last_step_;
  std::int64_t step_ = 0;  // the last one seen
  const bool everywhere_;
  bool writes_ = false;  // on this worker
};

/// How fast training is, once a period. On the chief.
class StepCounter final : public PeriodicAction {
 public:
  /// Receives the step and the speed over the past period. Where workers go at their own pace, all
  /// steps count, with as many examples as the chief's.
  using Output =
      std::function<void(std::int64_t step, double steps_per_second, double examples_per_second)>;

  /// The first output follows after one period; of a period in steps where a summary is due. Warns
  /// if the step stays the same over 20 calls: nothing increments it. `clock` outlives this object.
  /// Throws: ConfigError for a bad `every`.
  StepCounter(const Every& every, Output output, const Clock& clock);
  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override;
  void after_step(const StepReport& report, RunControl& run) override;

 private:
  void watch(std::int64_t step);

  const Every every_;
  StepTimer timer_;
  Output output_;
  std::optional<std::int64_t> last_step_;
  std::int64_t examples_ = 0;  // of the period, in this worker's steps
  std::int64_t steps_ = 0;     // of this worker
  int checks_without_increase_ = 0;
};

}  // namespace troupe
