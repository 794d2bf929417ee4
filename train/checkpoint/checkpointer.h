// Checkpointer: when a run is saved and where it resumes. The chief writes, in the background; all
// workers take part.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/core/file_system.h"
#include "troupe/core/options/checkpoint_cadence.h"
#include "troupe/core/stop_signal.h"
#include "troupe/hooks/values.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/checkpoint/checkpoint_writer.h"
#include "troupe/train/checkpoint/run_snapshot.h"

namespace troupe {

/// Puts the newest good checkpoint of options.model_dir into `state`, on all workers; writes
/// nothing. Returns whether there is one; if not, `state` gets the weights that options.warm_start
/// names, or stays as it is.
/// Collective: yes.  Throws: ConfigError (options.resume does not fit what is there, the data the
/// checkpoint); CheckpointError.
bool restore_newest(Strategy& strategy, TrainState& state, const DataIdentity& data,
                    const TrainOptions& options);

class Checkpointer {
 public:
  /// How the run begins: with what the model directory holds, or with what others gave this worker,
  /// who have the checkpoints too.
  enum class Begin { resume, under_way };
  /// A checkpoint was written, in so many seconds; called in the thread that wrote it. Seconds
  /// unset: a chief that was lost has written it, and may not have said so.
  using OnSaved = std::function<void(std::int64_t step, std::optional<double> seconds)>;
  /// Evaluates the state that was saved.  Collective: yes.
  using Together = std::function<void(const SavedCheckpoint& saved)>;

  /// Restores the newest good checkpoint of options.model_dir into `state`, or saves the fresh or
  /// warm state as step 0; the listeners are told either way. With a cadence of never it saves
  /// nothing, now or later, and listeners are an error. From here to the end of this object
  /// SIGTERM, SIGINT and SIGHUP are requests, see stop_signal. All arguments outlive this object.
  /// What is thrown on one worker is to be told to the others (detail::sharing_failure), as train()
  /// does. Collective: yes.  Blocks: for files, and as the strategy's collectives do. Throws:
  /// ConfigError (options.resume does not fit what is there, the data the checkpoint, or listeners
  /// the cadence), CheckpointError, EnvironmentError (another process writes there).
  Checkpointer(Strategy& strategy, TrainState& state, const DataIdentity& data,
               const TrainOptions& options, const Clock& clock,
               std::vector<std::shared_ptr<SavingListener>> listeners, OnSaved on_saved = nullptr,
               Begin begin = Begin::resume);
  ~Checkpointer();
  /// From now on, where a listener of the chief wants an evaluation. On every worker, or on none.
  void use(Together together) { together_ = std::move(together); }

  /// Whether this worker thinks that it is time to save; workers may differ, by their clocks.
  /// Throws: CheckpointError where the save in the background has failed.
  [[nodiscard]] bool is_due();
  /// The signal that asked this worker to save and stop; 0: none.
  [[nodiscard]] int stop_signal() const { return stop_.requested(); }
  [[nodiscard]] bool saves() const { return !cadence_.never(); }
  /// Whether a listener asked to stop; listeners are on the chief only.
  [[nodiscard]] bool listener_stops() const { return listener_stops_; }

  enum class Save {
    periodic,
    last,     // training ends with it
    stopping  // by a signal: listeners are not told, since what they would do may take long
  };
  /// Saves the state unless that step is saved. Returns when the state is copied; the files are
  /// written meanwhile, but where somebody listens: listeners see complete files.
  /// Collective: yes.  Throws: CheckpointError, of this save or the one before; WeightsDiffer, and
  /// nothing is saved, where workers or replicas disagree.
  void save(Save which);
  /// The present state comes to `value`. If that is better than the best checkpoint's, it becomes
  /// the best one when it is saved, or now if it was. The chief decides; a worker that becomes it
  /// before the next step does so then. Blocks: for the files of the last save.
  /// Throws: CheckpointError.
  void offer_best(const std::string& metric, double value, Better better);
  /// Whether the present state is the best one and is not saved yet; false but on the chief.
  [[nodiscard]] bool has_best_to_save() const {
    return best_ && best_->step == state_.step && has_to_save();
  }
  /// Whether save() would save anything: the present step is not saved yet.
  [[nodiscard]] bool has_to_save() const { return saves() && saved_step_ != state_.step; }
  /// Of the newest checkpoint; unset: there is none.
  [[nodiscard]] std::optional<std::int64_t> saved_step() const { return saved_step_; }
  /// This worker is the chief from now on: the newest checkpoint that is there, whole, is the
  /// run's. `tells`: the listeners are told of it, as where a run resumes. Throws: as the
  /// constructor.
  void lead(bool tells);
  /// The newest checkpoint, as the chief says; unset: there is none.
  void know(std::optional<std::int64_t> newest) { saved_step_ = newest; }
  /// Waits for the files of the last save. Throws: CheckpointError.
  void wait();
  /// Ends a run that ended cleanly: waits, and tells the listeners. Collective: with use().
  void finish();

 private:
  void resume();
  /// Whether the model directory is here the one that this start's chief writes to.
  [[nodiscard]] bool sees_chief();
  /// This worker is the chief.
  void open_writer();
  /// In the background, while training goes on.
  void write(std::int64_t step, const RunSnapshot& snapshot);
  [[nodiscard]] SavedCheckpoint saved(Save which) const;
  [[nodiscard]] std::string listener_text(const char* function) const;
  void tell_saved(Save which);
  /// Of what is saved, and by one thread at a time.
  void mark(const BestCheckpoint& best);
  void evaluate_together(Save which, bool ends);

  Strategy& strategy_;
  TrainState& state_;
  const DataIdentity data_;
  const TrainOptions& options_;
  const CheckpointCadence cadence_;
  const Clock& clock_;
  StopSignal stop_;  // before files_: signals are held back until they are written
  PosixFileSystem files_;
  std::optional<CheckpointWriter> writer_;                  // on the chief
  std::vector<std::shared_ptr<SavingListener>> given_;      // until this worker is the chief
  std::vector<std::shared_ptr<SavingListener>> listeners_;  // on the chief
  std::optional<BestCheckpoint> best_;  // on the chief; written down once it is saved
  struct Offer {
    std::int64_t step;
    std::string metric;
    double value;
    Better better;
  };
  std::optional<Offer> offer_;  // on the others, the last one
  const OnSaved on_saved_;
  Together together_;
  std::optional<std::int64_t> saved_step_;
  Clock::TimePoint saved_at_;
  bool listener_stops_ = false;
  std::future<void> saving_;  // last: its end waits for what uses the others
};

}  // namespace troupe
