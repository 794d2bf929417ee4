// StopAtCheckpointStep: a worker that does not save goes on until the last step is in a checkpoint,
// so that it does not leave the one that saves alone with the rest of the work. For groups without
// a common step; with one, StopAtStep does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/clock.h"
#include "train/callbacks/periodic_action.h"

namespace troupe {

class StopAtCheckpointStep final : public PeriodicAction {
 public:
  /// The step of the newest checkpoint; unset: there is none. Asked after every step.
  using CheckpointStep = std::function<std::optional<std::int64_t>()>;
  using Wait = std::function<void(Seconds)>;
  struct Patience {
    Seconds poll{30};    // one wait
    Seconds total{600};  // of all waits of a run
  };

  /// Throws: ConfigError for numbers that are not above 0.
  StopAtCheckpointStep(std::int64_t last_step, CheckpointStep checkpoint_step, Wait wait,
                       const Patience& patience);
  void begin() override { waited_ = Seconds(0); }
  /// Where the run has reached the last step and no checkpoint has: waits once, then goes on.
  /// Throws: TimeoutError when all patience is spent.
  void after_step(const StepReport& report, RunControl& run) override;

 private:
  std::int64_t last_step_;
  CheckpointStep checkpoint_step_;
  Wait wait_;
  Patience patience_;
  Seconds waited_{0};
};

}  // namespace troupe
