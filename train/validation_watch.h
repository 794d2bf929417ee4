// ValidationWatch: what the validations of a training loop decide: when training ends early, and
// which checkpoint is the best.
#pragma once

#include <optional>

#include "troupe/core/options/train_options.h"
#include "troupe/strategies/train_state.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/callbacks/stop_rules.h"

namespace troupe::detail {

class ValidationWatch {
 public:
  /// Both outlive it. What the rules remember is kept in the state, and so in checkpoints.
  ValidationWatch(const TrainOptions& options, TrainState& state, bool is_on)
      : options_(options), state_(state), is_on_(is_on) {}

  /// Whether the loop's validations decide, and not the evaluations of checkpoints.
  [[nodiscard]] bool is_on() const { return is_on_; }

  /// Throws: ConfigError if a rule names what validations do not have, or if nobody says which of
  /// two values is better.
  void check(const Report& validation) const;
  /// Whether the validation of the state is a reason to end training. The same on every worker.
  [[nodiscard]] StopReason stop_reason(const Report& validation);
  /// By what the best checkpoint is chosen; unset: by nothing.
  [[nodiscard]] std::optional<Judged> best(const Report& validation) const;

 private:
  const TrainOptions& options_;
  TrainState& state_;
  const bool is_on_;
};

}  // namespace troupe::detail
