// TrainingRun: a training run whose loop you write. troupe::train (train/loop.h) is the usual loop:
//
//   troupe::TrainingRun run(*strategy, hooks, state, data, options.train);  // resumes
//   for (auto& epoch : run.epochs()) {
//     for (const auto& batch : epoch) run.train_step(batch);
//     run.validate();
//   }
//   const troupe::History history = run.finish();
//
// Boundaries: a step is closed when the loop continues, at the next batch, epoch or step, and in
// finish(). There callbacks run, the workers agree (one small message), and a checkpoint is saved
// or training ends. So a checkpoint holds all that the body did after the step, and a resumed run
// starts with the next batch. The body's decisions must depend only on step_number(), the epoch,
// the batch, reduced values and kept numbers (keep): other variables are not saved. With workers at
// their own pace (parameter servers) step numbers skip; alternate by batch.step there.
//
// Between steps the body may do anything: change weights, draw random numbers, skip a batch, break.
// In lockstep all workers must do the same; for one alone there are stop() and save().
//
// Errors: the group is notified of what a verb throws; of what the body throws, by the destructor,
// without its text. Only destruction may follow either: other verbs throw ConfigError.
// Verbs are collective unless marked "Collective: no". Thread rule: one thread. One run at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "troupe/core/options/train_options.h"
#include "troupe/core/pull_range.h"
#include "troupe/data/loader.h"
#include "troupe/hooks/report.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe {

namespace detail {

// The two ranges of a training loop: its epochs, and the batches of one. Each advance of a range is
// a boundary of the training: it closes what came before, so it is collective, may save, and throws
// what the verbs throw.

/// The remaining batches of an epoch for this worker, once each. A batch is valid until the next
/// one. Leaving the inner loop and entering it again continues with the next batch.
class TrainingEpoch : public PullRange<TrainingEpoch, const DistributedBatch> {
 public:
  [[nodiscard]] virtual std::int64_t number() const = 0;  // from 0
  /// Null: the epoch or the training is over.
  [[nodiscard]] virtual const DistributedBatch* next() = 0;

 protected:
  ~TrainingEpoch() = default;
};

/// The remaining epochs. Advancing to the next one ends an epoch, however much of it was read.
class TrainingEpochs : public PullRange<TrainingEpochs, TrainingEpoch> {
 public:
  /// Null: training is over.
  [[nodiscard]] virtual TrainingEpoch* next() = 0;

 protected:
  ~TrainingEpochs() = default;
};

}  // namespace detail

class TrainingRun {
 public:
  /// Resumes from the newest checkpoint of options.model_dir, or starts from `state` as it is; one
  /// state goes with one data set. `strategy`, `hooks` and `state` outlive the run; the rest is
  /// copied. From here to finish() SIGTERM, SIGINT and SIGHUP are requests, which boundaries check
  /// for, and the model directory belongs to this run.
  /// Blocks: for files, and as the strategy's collectives do.
  /// Throws: ConfigError (before anything is written: no training data, options or callbacks that
  /// conflict or that this strategy cannot carry out, another unfinished run); CheckpointError;
  /// EnvironmentError.
  TrainingRun(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Callbacks callbacks = {});
  /// Waits for files. Without finish() this worker counts as having left: the group's training
  /// fails, and run_main ends the program with exit code 1.
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// The remaining epochs, starting with the current one, until training is over. A run that
  /// resumes at the very end of an epoch, or where training had ended within one, yields that epoch
  /// again, without batches: what the loop does after its last step may not have been done yet.
  [[nodiscard]] detail::TrainingEpochs& epochs();

  /// Runs hooks.train_step, or `step`, on every replica. A batch is one step: both updates of a
  /// pair of networks belong in one step function, or in two batches. A batch from another loop
  /// over data.train->epoch(e) works, too. False: no step was taken, because training is over or,
  /// in such a loop with workers at their own pace, the batch is another worker's.
  /// Throws: ConfigError for a batch whose step is taken, or beyond those of the training data, a
  /// step without a loss, a first step that applies no optimiser; NonFiniteError; Stopped after a
  /// signal (at a boundary), once the state is saved; WeightsDiffer (at a boundary that compares:
  /// options.check_weights_every, or a save); what the step throws.
  bool train_step(const DistributedBatch& batch);
  bool step(const DistributedBatch& batch, const Step& step);
  /// Losses of the last step, over all workers (only this one's, at its own pace); reduced at the
  /// first call. Throws: ConfigError before the first step.
  [[nodiscard]] const LossValues& losses();

  /// Runs hooks.validation_step over the validation data. Unset: there is none, checkpoints are
  /// evaluated instead (Callbacks::evaluates_checkpoints), or another worker does it. Closes no
  /// step. A plateau schedule uses the first validation of a complete epoch.
  std::optional<Report> validate();

  /// Records a number for the present step: log, metrics file, TensorBoard. The chief writes it;
  /// other workers may call this, too.  Collective: no.
  void log(const std::string& name, double value);
  /// For pictures, histograms and texts of the present step, which the chief writes:
  ///   run.recorder().log_image("worst digit", image);
  /// Collective: no.
  [[nodiscard]] Recorder& recorder();
  /// A variable of the loop that checkpoints keep: the value under `name` in a resumed run's
  /// checkpoint, or else `initial`. Read and assign it like any variable; it is valid as long as
  /// `state` and may be any double. The chief's is saved, so all workers assign the same; at their
  /// own pace, the others begin with `initial`.  Collective: no.
  ///   double& best = run.keep("best_loss", std::numeric_limits<double>::infinity());
  [[nodiscard]] double& keep(const std::string& name, double initial);
  /// The present state comes to `value` by a criterion of the loop's own. If that is better than
  /// all before, over restarts, the checkpoint of this step is saved and stays until a better one
  /// comes: --checkpoint <model_dir>/best. By a validation's metric, --best does this. NaN is never
  /// the best. The chief decides.  Collective: no.
  /// Throws: ConfigError as save(), or where `better` is unknown; CheckpointError.
  void keep_best(const std::string& metric, double value, Better better);
  /// Requests for the next boundary, by any worker for all; at their own pace, the chief's apply to
  /// all, and a stop() of another worker ends that worker. A step is saved once.  Collective: no.
  /// Throws: save(): ConfigError if nothing is saved: no options.model_dir, or a cadence of 0.
  void save();
  void stop(const std::string& reason);

  /// Call once: closes the last step, saves, ends training for all, makes buffers equal, then
  /// releases the signals and the model directory. Also after a break, which all workers do at the
  /// same place. Test and summarize afterwards: with parameter servers `state` is final only then.
  /// Throws: as step(); DesyncError if only some workers have left the loop; DivergedError, when
  /// all this is done, if asynchronous training has diverged (train/loss_watch.h).
  History finish();

  [[nodiscard]] std::int64_t step_number() const;  // optimiser updates so far
  [[nodiscard]] bool is_over() const;              // as of the last boundary

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
