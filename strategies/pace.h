// Pace: how this worker's steps relate to the others': together (lockstep, the default), or each at
// its own pace. Anything collective in lockstep concerns this worker alone elsewhere. A training
// loop asks the strategy's pace, never which strategy it is:
//
//   strategy->pace().start(state, *data.train, last_step);
//   while (const auto number = strategy->pace().next_step(state)) ...  // run, state.step = *number
//   strategy->pace().end(state, "all epochs are complete");
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/data/loader.h"
#include "troupe/strategies/train_state.h"

namespace troupe {

namespace detail {
class WaitMeter;
}  // namespace detail

/// The base class is lockstep: all workers take the same steps together, one update each, at the
/// same place in the data. A different pace overrides everything.
class Pace {
 public:
  /// What some options require: seeing every update of the parameters, the same validation results
  /// on all workers, knowing the last step before the first.
  enum class Need { every_update, shared_validation, last_step };
  struct Counts {
    std::int64_t updates_per_step = 1;  // of the training data's plan
    /// In which all together read an epoch once; unset: a stream's, which ends by place.
    std::optional<std::int64_t> updates_per_epoch;
    bool ends_by_place = true;  // the place in the data is the same everywhere
  };

  /// `tasks`: the workers of the group, by rank. `waits`: of this worker for the others; null:
  /// none.
  explicit Pace(std::vector<std::string> tasks = {"worker/0"},
                std::shared_ptr<const detail::WaitMeter> waits = nullptr)
      : tasks_(std::move(tasks)), waits_(std::move(waits)) {}
  virtual ~Pace() = default;

  /// "chief/0", "worker/1"
  [[nodiscard]] const std::vector<std::string>& tasks() const { return tasks_; }
  /// For how long this worker has stood still so far until values of the others came.
  [[nodiscard]] double waited_seconds() const;

  /// Whether this worker saves, validates, tests and decides when training ends.
  [[nodiscard]] virtual bool coordinates() const { return true; }
  /// Workers whose own state a checkpoint holds and whose losses Strategy::reduce adds.
  [[nodiscard]] virtual int voices() const { return static_cast<int>(tasks_.size()); }
  [[nodiscard]] virtual Counts counts(const DistributedDataset& train) const {
    return {1, train.steps_per_epoch(), true};
  }
  /// `what`: the option that needs it, by its user-visible name.
  /// Throws: ConfigError naming `what` if training at this pace does not meet the need.
  virtual void require(Need /*need*/, const std::string& /*what*/) const {}

  /// Once, when `state` is what training starts from: restored, or fresh. `last_step`: where it
  /// ends unless stopped earlier. At their own pace, all workers adopt the chief's state, and with
  /// it the place in the data. Training that is over already is started and ended, too.
  /// Collective: yes.  Blocks: at most start_timeout. Throws: ConfigError.
  virtual void start(TrainState& /*state*/, const DistributedDataset& /*train*/,
                     std::int64_t /*last_step*/) {}
  /// Before every training step: the number that state.step takes after it; unset when training is
  /// over for all, with the reason in state.ended. If each worker goes at its own pace, the numbers
  /// count the updates of all workers, so they skip, and new parameters arrive here.
  [[nodiscard]] virtual std::optional<std::int64_t> next_step(TrainState& state) {
    return state.step + 1;
  }
  /// Examples that this worker's results for the batch represent; unset: the batch belongs to
  /// another worker, so there is no step to take.
  [[nodiscard]] virtual std::optional<std::int64_t> examples_of(
      const DistributedBatch& batch) const {
    return batch.global_examples;
  }
  /// Brings `state` to one consistent moment, to save or validate it. Only if coordinates().
  virtual void collect(TrainState& /*state*/) {}
  /// Once, when training has ended on this worker. If each worker goes at its own pace, the chief
  /// ends training for all, with this reason, and `state` becomes the final state of training,
  /// unless collect() has done so. Blocks: at most collective_timeout and close_timeout.
  virtual void end(TrainState& /*state*/, const std::string& /*reason*/) {}
  /// Counts that only this pace has: a JSON object as text, known after end(); empty: none.
  [[nodiscard]] virtual std::string facts() const { return ""; }

 private:
  std::vector<std::string> tasks_;
  std::shared_ptr<const detail::WaitMeter> waits_;
};

}  // namespace troupe
