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

namespace troupe {

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string path;   // the directory that holds it, complete and durable
  bool last = false;  // training ends with it
};

/// Notified of every checkpoint of a run. On the chief only, since it alone saves.
class SavingListener {
 public:
  virtual ~SavingListener() = default;
  /// Once, before the first save.
  virtual void begin() {}
  /// Before the state is copied, so that a change made here is saved. The save can still fail
  /// (WeightsDiffer), and where the chief is lost during it, the next chief calls its own
  /// listeners.
  virtual void before_save(std::int64_t /*step*/) {}
  /// Also called for the state that training starts from, saved now or found. True ends training
  /// on all workers after this step; it has no effect at the first save and the last.
  virtual bool after_save(const SavedCheckpoint& /*saved*/) { return false; }
  /// Once, after the last save of a run that ended cleanly.
  virtual void end(const SavedCheckpoint& /*saved*/) {}
  /// Whether it is about to evaluate this checkpoint, in after_save() or, if the run ends, in
  /// end(): then Callbacks::evaluate_together is called first. Default: no.
  [[nodiscard]] virtual bool wants_evaluation(const SavedCheckpoint& /*saved*/, bool /*ends*/) {
    return false;
  }
};

class Replica;
class Strategy;
struct DistributedSplits;
struct TrainState;
namespace detail {

struct WeightAverages;

/// Of the state that was saved, by all workers together.  Collective: yes.
using EvaluateTogether =
    std::function<void(Strategy& strategy, TrainState& state, const DistributedSplits& data,
                       const SavedCheckpoint& saved)>;

}  // namespace detail

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
  [[nodiscard]] virtual const detail::WeightAverages* averages() const { return nullptr; }
  /// By task, the share of the time for which each worker waited for the slowest one of each step,
  /// since the group has the workers that it has. Empty: nobody waits for anybody, or it is not
  /// known yet.
  [[nodiscard]] virtual LossValues waiting() const { return {}; }
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
/// the run without end(). If nothing is left to train or
/// to report, neither ready nor end is called; of a run that resumes where it had ended within an
/// epoch, that epoch's report is left, which may not have been made. Within one
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
  /// A number that the loop itself records (TrainingRun::log); `step`: optimiser updates so far. On
  /// the chief.
  virtual void after_log(std::int64_t /*step*/, std::int64_t /*epoch*/, const std::string& /*name*/,
                         double /*value*/) {}
  virtual void end(RunControl& /*run*/) {}
};

/// Shared, so that users can read results from an action after the run.
using Actions = std::vector<std::shared_ptr<PeriodicAction>>;

/// The callbacks of a training run.
struct Callbacks {
  Actions actions;  // on every worker the same list
  std::vector<std::shared_ptr<SavingListener>>
      listeners;  // called in this order, on the chief only
  /// The factor of the learning rates of a step, from 1, instead of options.schedule: finite and at
  /// least 0, the same on every worker. Null: none.
  std::function<double(std::int64_t step)> rate_factor = nullptr;
  /// Checkpoints are evaluated, by listeners, as under train_and_evaluate, and not the training
  /// loop's state: TrainingRun::validate() does so only for a plateau schedule.
  bool evaluates_checkpoints = false;
  /// On every worker, or on none; where a listener of the chief wants_evaluation(). Of a group
  /// whose workers are in lockstep, and none may be lost.
  detail::EvaluateTogether evaluate_together = nullptr;
};

}  // namespace troupe
