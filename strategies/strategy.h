// Strategy: how one step runs on many replicas and yields one result.
// The verbs of a training loop:
//
//   auto state = strategy->create_state(hooks, seed);
//   auto data = strategy->distribute(hooks, {global_batch, seed});
//   for (const DistributedBatch& batch : data.train->epoch(e)) {
//     const auto results = strategy->run(step, state, batch);            // per replica
//     const auto losses = strategy->reduce(results);                     // of the whole step
//   }
//   strategy->close();
//
// Thread rule: one thread. Collective functions are called on every worker in the same order. The
// replicas of a worker run their steps on their own threads, inside run().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/options/data_options.h"
#include "troupe/core/span.h"
#include "troupe/data/loader.h"
#include "troupe/hooks/hooks.h"
#include "troupe/hooks/values.h"
#include "troupe/strategies/group_view.h"
#include "troupe/strategies/train_state.h"

namespace troupe {

class Elasticity;
class Pace;
struct DataDifference;

/// A step for one replica: Hooks::train_step or the user's own.
using Step = std::function<StepResult(Replica&, const Batch&)>;

/// The task's data as this worker's replicas read it; unset: the task has none. Training data is in
/// the order of Splits::sampler, but the others keep theirs.
struct DistributedSplits {
  std::optional<DistributedDataset> train;
  std::optional<DistributedDataset> validation;
  std::optional<DistributedDataset> test;
};

namespace detail {
class WaitMeter;

/// For what is called between steps. Throws: ConfigError inside a replica's step, where some
/// replicas would call it and others not, and a worker's replicas each for themselves.
void check_between_steps(const char* call);

}  // namespace detail

class Strategy {
 public:
  /// `name`: as --strategy spells it.
  Strategy(const char* name, const GroupView& view);
  virtual ~Strategy() = default;

  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] const GroupView& view() const { return view_; }
  [[nodiscard]] int rank() const { return view_.rank; }
  [[nodiscard]] int world_size() const { return view_.world_size(); }
  [[nodiscard]] int local_replicas() const { return view_.local_replicas(); }
  /// 0: there are none. With them all workers hold the same after every step, and run() returns one
  /// result, that of the whole step.
  [[nodiscard]] int virtual_replicas() const {
    return view_.hosting ? view_.hosting->virtual_replicas : 0;
  }
  [[nodiscard]] bool is_chief() const { return rank() == 0; }

  /// Default: lockstep. At any other pace, collectives concern this worker alone.
  [[nodiscard]] virtual Pace& pace() { return *lockstep_; }

  /// Makes this worker's replicas with the hooks, joins the group (at the first call), and copies
  /// the chief's parameters and buffers to all. `seed` seeds LibTorch's generators, with a
  /// different stream on each replica. `hooks` outlive the state. Collective: yes.  Blocks: at most
  /// start_timeout. Throws: ConfigError (models differ between workers: names the first tensor),
  /// NetError.
  [[nodiscard]] virtual TrainState create_state(const Hooks& hooks, std::uint64_t seed) = 0;

  /// Gives every replica its share of each split.
  /// Collective: yes.  Throws: ConfigError if workers see different data (sizes, the order of the
  /// training examples, classes, a few examples that the seed chooses), or if two splits have other
  /// classes; what the sampler and Dataset::get() throw. With parameter servers workers compare
  /// when training begins.
  [[nodiscard]] virtual DistributedSplits distribute(const Splits& splits, const BatchPlan& plan);
  /// The same of hooks.create_datasets(), which is called with LibTorch's generator at a place that
  /// the seed alone decides: what it draws is the same on every worker and at every call.
  [[nodiscard]] DistributedSplits distribute(const Hooks& hooks, const BatchPlan& plan);

  /// Runs `step` once per replica of this worker, in the phase's mode; returns one result per
  /// replica. A replica without examples runs on borrowed ones and its result is zero. With virtual
  /// replicas `step` runs for each that has examples, and there is one result, already summed over
  /// all of them. Collective: in Phase::train, through apply_gradients; with virtual replicas in
  /// every phase. Throws: what the step throws; the other workers then
  /// raise PeerFailed with its message.
  [[nodiscard]] virtual std::vector<StepResult> run(const Step& step, TrainState& state,
                                                    const DistributedBatch& batch,
                                                    Phase phase = Phase::train) = 0;

  /// The losses of all replicas of all workers, summed; of this worker's alone if each goes at its
  /// own pace. Losses made by Replica::global_mean add up to the step's mean.  Collective: yes.
  [[nodiscard]] LossValues reduce(const std::vector<StepResult>& results);

  /// Sums `values` over all workers, in place. Shapes: the same count everywhere. Default: nothing
  /// (one worker).  Collective: yes.  Throws: ConfigError inside a step, as the next three do:
  /// there is Replica::all_gather.
  virtual void sum(Span<double> /*values*/) { detail::check_between_steps("sum"); }

  /// Every worker's text, by rank; for short texts. Default: only this worker's.  Collective: yes.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& mine) {
    detail::check_between_steps("gather");
    return {mine};
  }

  /// Every worker's bytes on the chief, by rank, of any length; nothing on the others. Data in
  /// transit never takes more of a worker's memory than one piece. Collective: yes.  Blocks: at
  /// most collective_timeout a piece. Default: only this worker's.
  [[nodiscard]] virtual std::vector<std::vector<std::byte>> gather_to_chief(
      Span<const std::byte> mine) {
    detail::check_between_steps("gather_to_chief");
    return {{mine.begin(), mine.end()}};
  }
  /// Copies the chief's bytes to all workers, piece by piece. Shapes: the same count everywhere.
  /// Collective: yes.  Blocks: at most collective_timeout a piece. Default: nothing (one worker).
  virtual void broadcast(Span<std::byte> /*bytes*/) { detail::check_between_steps("broadcast"); }

  /// Makes buffers (batch-norm statistics) equal on all replicas: floating point ones become their
  /// mean, others take the values of the chief's first replica. Each replica keeps its own while it
  /// trains; evaluation, reports and saved weights come after this call. With virtual replicas they
  /// are equal after every step.  Collective: yes.
  void synchronize_buffers(TrainState& state);

  /// What this worker's next step depends on besides its replicas, by name: a part of its
  /// checkpoint. Default: nothing.
  [[nodiscard]] virtual std::vector<NamedTensor> own_state() const { return {}; }
  /// Restores what own_state() returned on the worker of this rank; empty: starts without it.
  /// Throws: CheckpointError.
  virtual void restore_own_state(const std::vector<NamedTensor>& /*tensors*/) {}

  /// Tells the group why this worker fails; best effort, never blocks long, never throws.
  virtual void abort(const std::string& /*reason*/, int /*exit_code*/) noexcept {}

  /// The way of this worker's group from one round to the next; null: a loss ends the group.
  [[nodiscard]] virtual Elasticity* elastic() { return nullptr; }

  /// Leaves the group, collectively; only destruction may follow.  Blocks: at most close_timeout.
  virtual void close() {}

 protected:
  /// The group is another one now. Data that was distributed follows with the next step.
  void move_to(const GroupView& view);
  /// Of the virtual replicas, as data is read for them.
  const std::shared_ptr<detail::ReplicaRange> hosted_ = std::make_shared<detail::ReplicaRange>();
  /// Of this worker for the others.
  const std::shared_ptr<detail::WaitMeter> waits_;

 private:
  const char* name_;
  GroupView view_;
  std::shared_ptr<Pace> lockstep_;
};

namespace detail {

/// `who` would train on other data than the chief does.
[[nodiscard]] ConfigError other_data(const std::string& who, const DataDifference& difference);

/// Sums `named` over all workers by name, in whatever order each worker has them (a step's losses
/// may have another order on another replica), and `more` by position; both in place and in one
/// message. With virtual replicas every worker has the sums already.
/// Collective: yes.  Throws: ConfigError, on all workers, if names differ between workers.
void sum_by_name(Strategy& strategy, LossValues& named, std::vector<double>& more);

}  // namespace detail
}  // namespace troupe
