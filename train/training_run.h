// TrainingRun: one training whose loop is yours. troupe::train (train/loop.h) is the usual loop:
//
//   troupe::TrainingRun run(*strategy, hooks, state, data, options.train);  // resumes
//   for (auto& epoch : run.epochs()) {
//     for (const auto& batch : epoch) run.train_step(batch);
//     run.validate();
//   }
//   const troupe::History history = run.finish();
//
// Boundaries: a step is closed when the loop continues, at the next batch, epoch or step, and in
// finish(). There callbacks hear of it, the workers agree (one small message), and a checkpoint is
// saved or training ends. A checkpoint so holds all that the body did after the step, and a resumed
// run starts with the next batch. What the body decides must follow from step_number(), the epoch,
// the batch, reduced values and what it keeps (keep): other variables are not saved. At an own pace
// (parameter servers) step numbers skip; alternate by batch.step there.
//
// The body may do what it likes between the steps: change weights, draw random numbers, skip a
// batch, break. In lockstep all workers must do the same; what one alone wants is stop() or save().
//
// Errors: what a verb throws has been told to the group; what the body throws is told by the
// destructor, without its text. Destruction alone may follow either: other verbs throw ConfigError.
// Verbs are collective unless they say no. Thread rule: one thread. One run at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/pull_range.h"
#include "data/loader.h"
#include "strategies/strategy.h"
#include "train/callbacks/callbacks.h"
#include "train/report.h"

namespace troupe {

// The two ranges of a training loop: its epochs, and the batches of one. Each step of a range is a
// boundary of the training: it closes what came before, so it is collective, may save, and throws
// what the verbs throw.

/// The batches of an epoch that are left for this worker, once each. A batch is valid until the
/// next one. Leaving the inner loop and entering it again continues with the next batch.
class TrainingEpoch : public PullRange<TrainingEpoch, const DistributedBatch> {
 public:
  [[nodiscard]] virtual std::int64_t number() const = 0;  // from 0
  /// Null: the epoch or the training is over.
  [[nodiscard]] virtual const DistributedBatch* next() = 0;

 protected:
  ~TrainingEpoch() = default;
};

/// The epochs that are left. An epoch that the next one follows is over, whatever was read of it.
class TrainingEpochs : public PullRange<TrainingEpochs, TrainingEpoch> {
 public:
  /// Null: training is over.
  [[nodiscard]] virtual TrainingEpoch* next() = 0;

 protected:
  ~TrainingEpochs() = default;
};

class TrainingRun {
 public:
  /// Continues from the newest checkpoint of options.model_dir, or from `state` as it is; one state
  /// goes with one data set. `strategy`, `hooks` and `state` outlive the run; the rest is copied.
  /// From here to finish() SIGTERM is a request, which boundaries see, and the model directory is
  /// this run's.
  /// Blocks: for files, and as the strategy's collectives do.
  /// Throws: ConfigError (before anything is written: no training data, options or callbacks that
  /// do not go together or that this strategy cannot carry out, another run that is not finished);
  /// CheckpointError; EnvironmentError.
  TrainingRun(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Callbacks callbacks = {});
  /// Waits for files. Without finish() this worker has left: the group's training fails, and
  /// run_main ends the program with exit code 1.
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// The epochs from here on, the begun one first, until training is over. A run that resumes at
  /// the very end of an epoch yields that epoch again, without batches: what comes after its last
  /// step was not done yet.
  [[nodiscard]] TrainingEpochs& epochs();

  /// hooks.train_step, or `step`, on every replica. A batch is one step: both updates of a pair of
  /// networks belong into one step function, or to two batches. A batch of another loop over
  /// data.train->epoch(e) will do. False: no step was taken, since training is over or, in such a
  /// loop at an own pace, the batch is another worker's.
  /// Throws: ConfigError for a batch whose step is taken, or a step without a loss; NonFiniteError;
  /// Stopped after SIGTERM (at a boundary), when the state is saved; what the step throws.
  bool train_step(const DistributedBatch& batch);
  bool step(const DistributedBatch& batch, const Step& step);
  /// Losses of the last step, over all workers (at an own pace: this one's); reduced at the first
  /// call. Throws: ConfigError before the first step.
  [[nodiscard]] const LossValues& losses();

  /// hooks.validation_step over the validation data. Unset: there is none, it is looked at where
  /// checkpoints are (Callbacks::Validation), or another worker does it. Closes no step. Of a
  /// complete epoch a plateau schedule takes the first one to account.
  std::optional<Report> validate();

  /// A number to write down with the present step: log, metrics file, TensorBoard. The chief
  /// writes, other workers may call it.  Collective: no.
  void log(const std::string& name, double value);
  /// A number of the loop's own that is in the checkpoint: what a resumed run's checkpoint has
  /// under `name`, or else `initial`. Read and assign it as a variable; it is valid as long as
  /// `state` and may be any double. The chief's is saved, so all workers assign the same; at an own
  /// pace the others begin with `initial`.  Collective: no.
  ///   double& best = run.keep("best_loss", std::numeric_limits<double>::infinity());
  [[nodiscard]] double& keep(const std::string& name, double initial);
  /// Wishes for the next boundary, of any worker for all; at an own pace the chief's are everyone's
  /// and a stop() of another worker ends that worker. A step is saved once.  Collective: no.
  /// Throws: save(): ConfigError where nothing is saved: no options.model_dir, or a cadence of 0.
  void save();
  void stop(const std::string& reason);

  /// Once: closes the last step, saves, ends training for all, makes buffers equal; then SIGTERM
  /// and the model directory are free. Also after a break, which all workers do at the same place.
  /// Test and summarize afterwards: with parameter servers `state` is what training came to only
  /// now.  Throws: as step(); DesyncError where some workers have left the loop and others not.
  History finish();

  [[nodiscard]] std::int64_t step_number() const;  // optimiser updates so far
  [[nodiscard]] bool is_over() const;              // as of the last boundary

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
