// Pace: how this worker's steps relate to the others': together (lockstep, the default), or each at
// its own pace. What is collective in lockstep concerns this worker alone elsewhere. A training
// loop asks the strategy's pace and never for the kind of strategy:
//
//   strategy->pace().start(state, *data.train, last_step);
//   while (const auto number = strategy->pace().next_step(state)) ...  // run, state.step = *number
//   strategy->pace().end(state, "all epochs are complete");
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/loader.h"
#include "strategies/train_state.h"

namespace troupe {

/// The pace itself is lockstep: all workers take the same steps together, one update each, at the
/// same place in the data. What is at another pace overrides everything.
class Pace {
 public:
  /// What some options can be carried out with only: to see every update of the parameters, that
  /// all workers see the same validation results, to know the last step before the first.
  enum class Need { every_update, shared_validation, last_step };
  struct Counts {
    std::int64_t updates_per_step = 1;   // of the training data's plan
    std::int64_t updates_per_epoch = 0;  // in which all together read every example once
    bool ends_by_place = true;           // the place in the data is the same everywhere
  };

  /// `workers` take each step together.
  explicit Pace(int workers = 1) : workers_(workers) {}
  virtual ~Pace() = default;

  /// Whether this worker saves, validates, tests and decides about the end.
  [[nodiscard]] virtual bool coordinates() const { return true; }
  /// Workers whose own state a checkpoint holds and whose losses Strategy::reduce adds.
  [[nodiscard]] virtual int voices() const { return workers_; }
  [[nodiscard]] virtual Counts counts(const DistributedDataset& train) const {
    return {1, train.steps_per_epoch(), true};
  }
  /// `what` is the option that needs it, as the user knows it.
  /// Throws: ConfigError that names `what` where training at this pace lacks what it needs.
  virtual void require(Need /*need*/, const std::string& /*what*/) const {}

  /// Once, when `state` is what training starts from: restored, or fresh. `last_step`: where it
  /// ends, if nobody stops it. At an own pace the chief's state becomes everybody's, and the place
  /// in the data follows from it. Training that is over already is started and ended, too.
  /// Collective: yes.  Blocks: at most start_timeout. Throws: ConfigError.
  virtual void start(TrainState& /*state*/, const DistributedDataset& /*train*/,
                     std::int64_t /*last_step*/) {}
  /// Before every training step: the number that state.step takes after it; unset when training is
  /// over for all, with the reason in state.ended. At an own pace the numbers count the updates of
  /// all workers, so they skip, and new parameters arrive here.
  [[nodiscard]] virtual std::optional<std::int64_t> next_step(TrainState& state) {
    return state.step + 1;
  }
  /// Examples that this worker's results of the batch stand for; unset: the batch is another
  /// worker's, and there is no step to take.
  [[nodiscard]] virtual std::optional<std::int64_t> examples_of(
      const DistributedBatch& batch) const {
    return batch.global_examples;
  }
  /// Makes `state` what is to be saved or validated, of one moment. Only where coordinates().
  virtual void collect(TrainState& /*state*/) {}
  /// Once, when training has ended on this worker. At an own pace the chief ends it for all, with
  /// this reason, and `state` becomes what training came to, unless collect() has seen to that.
  /// Blocks: at most collective_timeout and close_timeout.
  virtual void end(TrainState& /*state*/, const std::string& /*reason*/) {}
  /// What only this pace counts, a JSON object as text, known after end(); empty: nothing.
  [[nodiscard]] virtual std::string facts() const { return ""; }

 private:
  int workers_;
};

}  // namespace troupe
