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

  virtual ~Pace() = default;

  /// Whether this worker saves, validates, tests and decides about the end.
  [[nodiscard]] virtual bool coordinates() const = 0;
  /// Workers whose own state a checkpoint holds and whose losses Strategy::reduce adds.
  [[nodiscard]] virtual int voices() const = 0;
  [[nodiscard]] virtual Counts counts(const DistributedDataset& train) const = 0;
  /// `what` is the option that needs it, as the user knows it.
  /// Throws: ConfigError that names `what` where training at this pace lacks what it needs.
  virtual void require(Need need, const std::string& what) const = 0;

  /// Once, when `state` is what training starts from: restored, or fresh. `last_step`: where it
  /// ends, if nobody stops it. At an own pace the chief's state becomes everybody's, and the place
  /// in the data follows from it. Training that is over already is started and ended, too.
  /// Collective: yes.  Blocks: at most start_timeout. Throws: ConfigError.
  virtual void start(TrainState& state, const DistributedDataset& train,
                     std::int64_t last_step) = 0;
  /// Before every training step: the number that state.step takes after it; unset when training is
  /// over for all, with the reason in state.ended. At an own pace the numbers count the updates of
  /// all workers, so they skip, and new parameters arrive here.
  [[nodiscard]] virtual std::optional<std::int64_t> next_step(TrainState& state) = 0;
  /// Examples that this worker's results of the batch stand for; unset: the batch is another
  /// worker's, and there is no step to take.
  [[nodiscard]] virtual std::optional<std::int64_t> examples_of(
      const DistributedBatch& batch) const = 0;
  /// Makes `state` what is to be saved or validated, of one moment. Only where coordinates().
  virtual void collect(TrainState& state) = 0;
  /// Once, when training has ended on this worker. At an own pace the chief ends it for all, with
  /// this reason, and `state` becomes what training came to, unless collect() has seen to that.
  /// Blocks: at most collective_timeout and close_timeout.
  virtual void end(TrainState& state, const std::string& reason) = 0;
  /// What only this pace counts, a JSON object as text, known after end(); empty: nothing.
  [[nodiscard]] virtual std::string facts() const = 0;
};

/// All workers take the same steps together: one update each, at the same place in the data.
class LockstepPace final : public Pace {
 public:
  explicit LockstepPace(int workers) : workers_(workers) {}

  [[nodiscard]] bool coordinates() const override { return true; }
  [[nodiscard]] int voices() const override { return workers_; }
  [[nodiscard]] Counts counts(const DistributedDataset& train) const override {
    return {1, train.steps_per_epoch(), true};
  }
  void require(Need /*need*/, const std::string& /*what*/) const override {}
  void start(TrainState&, const DistributedDataset&, std::int64_t) override {}
  [[nodiscard]] std::optional<std::int64_t> next_step(TrainState& state) override {
    return state.step + 1;
  }
  [[nodiscard]] std::optional<std::int64_t> examples_of(
      const DistributedBatch& batch) const override {
    return batch.global_examples;
  }
  void collect(TrainState& /*state*/) override {}
  void end(TrainState& /*state*/, const std::string& /*reason*/) override {}
  [[nodiscard]] std::string facts() const override { return ""; }

 private:
  int workers_;
};

}  // namespace troupe
