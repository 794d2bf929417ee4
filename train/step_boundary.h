// StepBoundary: where a training loop continues after a step. Actions see the step, the workers
// agree (train/leadership.h), and what they have agreed on is done: a save, the end of training,
// the admission of other workers, or nothing. It is what actions see of the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/options/train_options.h"
#include "troupe/core/stop_signal.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/admission.h"
#include "troupe/train/callback_list.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/checkpoint/checkpointer.h"
#include "troupe/train/leadership.h"
#include "troupe/train/loss_watch.h"
#include "troupe/train/training_limits.h"

namespace troupe::detail {

/// A signal to a worker that has nothing to save, beside parameter servers: without its part of the
/// step under way the chief, which got the same signal, would save another state.
class DeferredStop {
 public:
  /// Throws: Stopped, if the chief has not ended training in time.
  void check();

 private:
  StopSignal signal_;
  std::optional<std::chrono::steady_clock::time_point> since_;
};

class StepBoundary final : public RunControl {
 public:
  /// A place where a training loop continues or ends.
  struct Place {
    bool after_step = false;  // a step is closed here
    bool last = false;        // no step follows
    bool leaving = false;     // the loop ends here of its own accord
  };

  /// All arguments outlive this object.
  StepBoundary(Strategy& strategy, TrainState& state, const TrainOptions& options,
               CallbackList& callbacks, Leadership& leadership, Admission& admission)
      : strategy_(strategy),
        state_(state),
        options_(options),
        callbacks_(callbacks),
        leadership_(leadership),
        admission_(admission) {}

  /// Resumes from options.model_dir, or saves the fresh state; where there is no directory, or
  /// another worker saves, it does neither. A worker that joins a run under way waits here until it
  /// is admitted, and resumes from the others' state.
  /// Collective: yes. Throws: as Checkpointer.
  void open(const DataIdentity& identity, const Clock& clock, const Callbacks& callbacks,
            Checkpointer::OnSaved on_saved, const DistributedSplits& data);
  /// Before the first step: whether training is over by its limits, or an action wants no step.
  /// `watches_losses`: check_losses() will know the losses; for a training that starts afresh.
  void begin(bool reached, bool watches_losses);

  /// A step was taken; `report` has no losses yet. The host waits for the device here, as it did
  /// for the check of the gradients.
  void take(StepReport report, std::vector<StepResult> results);
  /// Of the last step, means over all workers. Collective: the first time after a step. Throws:
  /// ConfigError before the first step.
  const LossValues& losses();
  /// The actions see the step that was taken, once. Returns whether there was one.
  /// Collective: where one of them wants the losses.
  bool tell_step();
  /// What any worker asks for becomes everybody's: saves, or ends training, or does neither; lets
  /// in who waits. Compares the workers' weights before a save and every
  /// options.check_weights_every steps. Collective: yes.  Throws: CheckpointError; Stopped after a
  /// signal, when the state is saved; NonFiniteError as the options say; DesyncError where some
  /// workers have left the loop; WeightsDiffer; PeerLost where too few are left.
  void close(const Place& at);

  /// After release(). Throws: DivergedError where watched losses have diverged; with
  /// OnNonFinite::stop that is a warning.
  void check_losses() const;
  /// As the options say: fails, or ends training without another save. `good`: the last step that
  /// can be trained on. Throws: `error`.
  void end_by(const NonFiniteError& error, std::int64_t good);
  /// This worker takes no further step.
  void end() { over_ = true; }

  /// A checkpoint at the next boundary. Throws: ConfigError where nothing is saved.
  void request_save();
  /// The present state, by its validation: see Checkpointer::offer_best. Throws: as request_save.
  void offer_best(const std::string& metric, double value, Better better);
  [[nodiscard]] bool is_over() const { return over_; }
  /// After the last boundary: saves what is not saved, and ends training for all. Returns why
  /// training is over.
  std::string finish(const TrainingLimits& limits);
  /// Waits for the files, tells the listeners, and lets the directory and the signals go.
  void release();

  [[nodiscard]] std::int64_t step() const override { return state_.step; }
  [[nodiscard]] bool is_chief() const override { return strategy_.is_chief(); }
  [[nodiscard]] Replica& replica() override { return *state_.replicas.front(); }
  [[nodiscard]] const WeightAverages* averages() const override {
    return state_.averages ? &*state_.averages : nullptr;
  }
  void request_stop(const std::string& reason) override;
  [[nodiscard]] LossValues waiting() const override { return leadership_.waiting(); }

 private:
  [[nodiscard]] StepFlags flags(const Place& at);
  void carry_out(const Place& at, const StepDecision& decision);
  [[noreturn]] void end_early(const StepDecision& decision);
  [[noreturn]] void depart();

  /// The step that the loop has just taken.
  struct Taken {
    StepReport report;
    std::vector<StepResult> results;
    std::optional<LossValues> losses;  // once they were asked for
    bool is_finite = true;
    bool is_told = true;
  };

  Strategy& strategy_;
  TrainState& state_;
  const TrainOptions& options_;
  CallbackList& callbacks_;
  Leadership& leadership_;
  Admission& admission_;
  std::optional<Checkpointer> checkpoints_;
  std::optional<LossWatch> watch_;
  std::optional<DeferredStop> deferred_stop_;
  Taken taken_;
  std::string stop_reason_;   // empty: this worker does not want to stop
  bool save_wished_ = false;  // by the loop
  bool spoiled_ = false;      // what the state holds is not to be saved
  bool left_ = false;         // the loop ended before training was over
  bool over_ = false;
};

}  // namespace troupe::detail
