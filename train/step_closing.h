// StepClosing: what all workers decide together where a training loop continues: save, end, both or
// neither. It is what actions see of the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/options/train_options.h"
#include "troupe/core/stop_signal.h"
#include "troupe/report/outbox.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/admission.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/checkpoint/checkpointer.h"
#include "troupe/train/early_end.h"
#include "troupe/train/loss_watch.h"
#include "troupe/train/step_meeting.h"
#include "troupe/train/wishes.h"

namespace troupe::detail {

/// When training ends, in epochs and in steps.
class TrainingLimits {
 public:
  /// Training starts after step `began_at`; `counts.updates_per_epoch` is at least 1
  /// where it is known.
  TrainingLimits(const TrainOptions& options, std::int64_t began_at, const Pace::Counts& counts);

  /// Nothing is left to do.
  [[nodiscard]] bool reached(const TrainState& state) const;
  /// The step that brought `state` here was the last one.
  [[nodiscard]] bool is_last(const TrainState& state) const;
  /// The step that training ends at, if nobody stops it; INT64_MAX: unknown, a stream's end.
  [[nodiscard]] std::int64_t last_step() const;
  /// "max_steps 600 is reached", "the data has ended: 2 epochs, step 140 of max_steps 600".
  [[nodiscard]] std::string reason(const TrainState& state) const;

 private:
  std::optional<std::int64_t> updates_per_epoch_;
  std::int64_t epochs_;
  std::int64_t steps_;
  bool relative_;  // to where this run started
  bool ends_by_place_;
};

/// A place where a training loop continues or ends.
struct Boundary {
  bool after_step = false;  // a step is closed here
  bool last = false;        // no step follows
  bool leaving = false;     // the loop ends here of its own accord
};

class StepClosing final : public RunControl {
 public:
  /// All arguments outlive this object. `follow`: this worker may be another group's now, or its
  /// leader: tells what it has kept.
  StepClosing(Strategy& strategy, TrainState& state, const TrainOptions& options, Outbox& outbox,
              std::function<void()> follow)
      : strategy_(strategy),
        state_(state),
        options_(options),
        meeting_(strategy, outbox, std::move(follow)) {}

  /// Resumes from options.model_dir, or saves the fresh state; where there is no directory, or
  /// another worker saves, it does neither. A worker that joins a run under way waits here until it
  /// is admitted, and resumes from the others' state.
  /// Collective: yes. Throws: as Checkpointer.
  void open(const DataIdentity& identity, const Clock& clock, const Callbacks& callbacks,
            Checkpointer::OnSaved on_saved, const DistributedSplits& data);
  /// Before the first step: whether training is over by its limits, or an action wants no step.
  /// `watches_losses`: check_losses() will know the losses; for a training that starts afresh.
  void begin(bool reached, bool watches_losses);

  /// Known after open().
  [[nodiscard]] Admission& admission() { return admission_; }

  /// Every worker's wishes become everybody's: saves, or ends training, or does neither; lets in
  /// who waits. Compares the workers' weights before a save and every options.check_weights_every
  /// steps. Collective: yes.  Throws: CheckpointError; Stopped after a signal, when the state is
  /// saved; NonFiniteError as the options say; DesyncError where some workers have left the loop;
  /// WeightsDiffer.
  void close(const Boundary& at);
  /// This worker's losses of the step that is closed next. The host waits for the device here, as
  /// it did for the check of the gradients.
  void take(const std::vector<StepResult>& results);
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
  /// After the last boundary: saves what is not saved, and ends training for all.
  void finish(const TrainingLimits& limits);
  /// Returns when a leader has told all that was to be reported so far.  Collective: yes.
  void settle() {
    (void)meeting_.agree([] { return Wishes(); });
  }
  /// Waits for the files, tells the listeners, and lets the directory and the signals go.
  void release();
  /// Why training is over.
  [[nodiscard]] std::string reason(const TrainingLimits& limits) const;

  [[nodiscard]] std::int64_t step() const override { return state_.step; }
  [[nodiscard]] bool is_chief() const override { return strategy_.is_chief(); }
  [[nodiscard]] Replica& replica() override { return *state_.replicas.front(); }
  [[nodiscard]] const WeightAverages* averages() const override {
    return state_.averages ? &*state_.averages : nullptr;
  }
  void request_stop(const std::string& reason) override;
  [[nodiscard]] LossValues waiting() const override { return meeting_.waiting(); }

 private:
  [[nodiscard]] Wishes wishes(const Boundary& at);
  void carry_out(const Boundary& at, const Wishes& agreed);
  void await_chief_stop();

  Strategy& strategy_;
  TrainState& state_;
  const TrainOptions& options_;
  StepMeeting meeting_;
  Admission admission_{strategy_, state_};
  const EarlyEnd early_end_{strategy_, state_, options_};
  std::optional<Checkpointer> checkpoints_;
  std::optional<LossWatch> watch_;
  /// Beside parameter servers, of a worker that is not the chief: it has nothing to save, but
  /// without its part of the step under way the chief would save another state.
  std::optional<StopSignal> held_signal_;
  std::optional<std::chrono::steady_clock::time_point> signalled_at_;
  std::string stop_reason_;       // empty: this worker does not want to stop
  bool save_wished_ = false;      // by the loop
  bool loss_not_finite_ = false;  // of the last step, on this worker
  bool spoiled_ = false;          // what the state holds is not to be saved
  bool left_ = false;             // the loop ended before training was over
  bool over_ = false;
};

}  // namespace troupe::detail
