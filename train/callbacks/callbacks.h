// Callbacks: code that runs around the steps and the saves of a training run, besides what the
// options request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/hooks/report.h"
#include "troupe/train/schedule/schedule_factor.h"

namespace troupe {

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string path;   // the directory that holds it, complete and durable
  bool last = false;  // training ends with it
};

/// Notified of every checkpoint of a run. On the chief only, since it alone saves.
class SavingListener {
 public:
  enum class Answer { go_on, stop };

  virtual ~SavingListener() = default;
  /// Once, before the first save.
  virtual void begin() {}
  virtual void before_save(std::int64_t /*step*/) {}
  /// Also called for the state that training starts from, saved now or found. `stop` ends training
  /// on all workers after this step; it has no effect at the first save and the last.
  virtual Answer after_save(const SavedCheckpoint& /*saved*/) { return Answer::go_on; }
  /// Once, after the last save of a run that ended cleanly.
  virtual void end(const SavedCheckpoint& /*saved*/) {}
  /// Whether it is about to evaluate this checkpoint, in after_save() or, if the run ends, in
  /// end(): then Callbacks::evaluate_together is called first. Default: no.
  [[nodiscard]] virtual bool wants_evaluation(const SavedCheckpoint& /*saved*/, bool /*ends*/) {
    return false;
  }
};

/// Called in list order.
using SavingListeners = std::vector<std::shared_ptr<SavingListener>>;

class Replica;
class Strategy;
struct DistributedSplits;
struct TrainState;
struct WeightAverages;

/// Of the state that was saved, by all workers together.  Collective: yes.
using EvaluateTogether =
    std::function<void(Strategy& strategy, TrainState& state, const DistributedSplits& data,
                       const SavedCheckpoint& saved)>;

/// A step, seen from outside. The losses are present if an action wants them: reducing them costs a
/// message.
struct StepReport {
  std::int64_t step = 0;      // optimiser updates so far, this one included
  std::int64_t epoch = 0;     // from 0
  std::int64_t examples = 0;  // of this step, over all workers
  LossValues losses;          // over all workers; empty if no action wants them
  // Of this step, of the first optimiser's first group; unset if no schedule changes the rates.
  std::optional<double> learning_rate = std::nullopt;
};

/// A number that the loop itself records (TrainingRun::log).
struct LoggedValue {
  std::int64_t step = 0;   // optimiser updates so far
  std::int64_t epoch = 0;  // from 0
  std::string name;
  double value = 0;
};

/// An image that the loop itself records (TrainingRun::log_image).
struct LoggedImage {
  std::int64_t step = 0;  // optimiser updates so far
  std::string name;
  std::string png;  // the bytes of a PNG file
};

/// What an action may see of the run, and request from it.
class RunControl {
 public:
  virtual ~RunControl() = default;
  /// Optimiser updates so far.
  [[nodiscard]] virtual std::int64_t step() const = 0;
  [[nodiscard]] virtual bool is_chief() const = 0;
  /// This worker's first replica.
  [[nodiscard]] virtual Replica& replica() = 0;
  /// The averages of its weights, which evaluations use; null: none are kept.
  [[nodiscard]] virtual const WeightAverages* averages() const { return nullptr; }
  /// Training ends after the present step's actions, on all workers, with a save. `reason` is
  /// logged: "the loss has not decreased for 500 steps".
  virtual void request_stop(const std::string& reason) = 0;
};

/// Code that runs around the steps of training, such as logging.
/// Every worker holds the same list of actions and calls it in the same order; actions see reduced
/// values, so their decisions are the same everywhere, and a stop that any of them requests is
/// agreed on by all.
///
/// Order of calls: begin; the state is made or restored; ready; then for each step before_step, the
/// step, after_step; before_validation where the loop validates; after_epoch if an epoch ends; end,
/// only if training ended cleanly (last step, end of the data, a requested stop). An exception ends
/// the run without end(). If nothing is left to train, neither ready nor end is called. Within one
/// call: the framework's actions first, then the user's, in list order.
class PeriodicAction {
 public:
  virtual ~PeriodicAction() = default;
  /// Whether this action exists on the chief alone. Such an action starts no collective.
  [[nodiscard]] virtual bool chief_only() const { return false; }
  /// Whether after_step of this step needs losses; the same answer on every worker. `first`: it is
  /// the first step of this run.
  [[nodiscard]] virtual bool wants_losses(std::int64_t /*step*/, bool /*first*/) const {
    return false;
  }
  virtual void begin() {}
  virtual void ready(RunControl& /*run*/) {}
  virtual void before_step(RunControl& /*run*/) {}
  virtual void after_step(const StepReport& report, RunControl& run) = 0;
  /// A pass over the validation data begins.
  virtual void before_validation() {}
  /// `validation`: null if there is no validation data.
  virtual void after_epoch(std::int64_t /*epoch*/, const Report& /*train*/,
                           const Report* /*validation*/) {}
  /// On the chief.
  virtual void after_log(const LoggedValue& /*value*/) {}
  virtual void after_image(const LoggedImage& /*image*/) {}
  virtual void end(RunControl& /*run*/) {}
};

/// Shared, so that users can read results from an action after the run.
using Actions = std::vector<std::shared_ptr<PeriodicAction>>;

/// The callbacks of a training run.
struct Callbacks {
  /// Where validation happens: in the training loop (TrainingRun::validate), or in listeners that
  /// evaluate checkpoints, as under train_and_evaluate. With a plateau schedule
  /// TrainingRun::validate() validates either way.
  enum class Validation { every_epoch, at_checkpoints };

  Actions actions;            // on every worker the same list
  SavingListeners listeners;  // called on the chief only
  /// Of the learning rate, instead of options.schedule; the same on every worker. Null: none.
  RateFactor rate_factor = nullptr;
  Validation validation = Validation::every_epoch;
  /// On every worker, or on none; where a listener of the chief wants_evaluation(). Of a group
  /// whose workers are in lockstep, and none may be lost.
  EvaluateTogether evaluate_together = nullptr;
};

}  // namespace troupe
