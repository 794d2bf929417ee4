// Strategy: how one step runs on many replicas and becomes one result. The verbs of a training
// loop:
//
//   auto state = strategy->create_state(hooks, seed);
//   auto data = strategy->distribute(hooks.create_datasets(), {global_batch, seed});
//   for (const DistributedBatch& batch : data.train->epoch(e)) {
//     const auto results = strategy->run(step, state, batch);            // per replica
//     const auto losses = strategy->reduce(Reduction::sum, results);     // of the whole step
//   }
//   strategy->close();
//
// Thread rule: one thread. Collective functions are called on every worker in the same order. The
// replicas of a worker run their steps on threads of their own, inside run().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/span.h"
#include "data/loader.h"
#include "hooks/hooks.h"
#include "hooks/values.h"
#include "strategies/train_state.h"

namespace troupe {

/// A step for one replica: Hooks::train_step or the user's own.
using Step = std::function<StepResult(Replica&, const Batch&)>;

enum class Reduction { sum, mean };  // over replicas

/// How data becomes steps.
struct BatchPlan {
  std::int64_t global_batch = 64;  // examples of a step over all replicas
  std::uint64_t seed = 1;          // of the order of the training examples
};

/// The task's data as this worker's replicas read it; unset where the task has none. Training data
/// is shuffled every epoch, the others keep their order.
struct DistributedSplits {
  std::optional<DistributedDataset> train;
  std::optional<DistributedDataset> validation;
  std::optional<DistributedDataset> test;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  [[nodiscard]] virtual const char* name() const = 0;  // as --strategy spells it
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;
  [[nodiscard]] virtual int local_replicas() const = 0;
  /// Replicas whose examples make one update together.
  [[nodiscard]] virtual int replicas_in_sync() const { return world_size() * local_replicas(); }
  [[nodiscard]] bool is_chief() const { return rank() == 0; }

  /// Whether all workers take the same steps together, and collectives connect them. Where not
  /// (parameter servers), each worker trains at its own pace, what is collective elsewhere concerns
  /// this worker alone, and the chief alone evaluates and saves.
  [[nodiscard]] virtual bool in_lockstep() const { return true; }

  /// Makes this worker's replicas with the hooks, joins the group (at the first call), and copies
  /// the chief's parameters and buffers to all. `seed` starts LibTorch's generators, another stream
  /// on each replica. Collective: yes.  Blocks: at most start_timeout. Throws: ConfigError (models
  /// differ between workers: names the first tensor), RendezvousError.
  [[nodiscard]] virtual TrainState create_state(const Hooks& hooks, std::uint64_t seed) = 0;

  /// Once, when `state` is what training starts from: restored, or fresh. `last_step`: where it
  /// ends, if nobody stops it. Without lockstep the chief's state becomes everybody's.
  /// Collective: yes.  Blocks: at most start_timeout.
  virtual void publish(TrainState& state, std::int64_t last_step);

  /// Before every training step: the number that state.step takes after it; unset when training is
  /// over for all, with the reason in state.ended. Without lockstep the step counts the updates of
  /// all workers, and new parameters arrive here.
  [[nodiscard]] virtual std::optional<std::int64_t> begin_step(TrainState& state);

  /// Makes `state` what a checkpoint is to hold. Without lockstep the chief fetches parameters,
  /// optimisers and step of one moment; other workers must not call it.
  virtual void collect(TrainState& state);

  /// Once, when training has ended on this worker. Without lockstep the chief ends it for all, with
  /// this reason, and `state` becomes what training came to, unless collect() has seen to that.
  /// Blocks: at most collective_timeout and close_timeout.
  virtual void end_training(TrainState& state, const std::string& reason);

  /// What only this strategy counts, a JSON object as text, known after end_training; empty: none.
  [[nodiscard]] virtual std::string facts() const;

  /// Gives every replica its share of each split.
  /// Collective: yes.  Throws: ConfigError when workers see data sets of different sizes.
  [[nodiscard]] virtual DistributedSplits distribute(const Splits& splits, const BatchPlan& plan);

  /// Runs `step` once per replica of this worker, in the phase's mode; returns one result per
  /// replica. A replica without examples runs on borrowed ones and its result is zero. Collective:
  /// in Phase::train, through apply_gradients. Throws: what the step throws; the other workers then
  /// raise PeerFailed with its message.
  [[nodiscard]] virtual std::vector<StepResult> run(const Step& step, TrainState& state,
                                                    const DistributedBatch& batch,
                                                    Phase phase = Phase::train) = 0;

  /// The losses of all replicas of all workers, summed or averaged; without lockstep, of this
  /// worker's. Losses made by Replica::global_mean are to be summed.  Collective: yes.
  [[nodiscard]] LossValues reduce(Reduction reduction, const std::vector<StepResult>& results);

  /// Sums `values` over all workers, in place. Shapes: the same count everywhere.  Collective: yes.
  virtual void sum(Span<double> values) = 0;

  /// Every worker's text, by rank, for short ones.  Collective: yes.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& mine) = 0;

  /// Every worker's bytes on the chief, by rank, however long; nothing on the others. What travels
  /// passes no worker's memory in more than a piece. Collective: yes.  Blocks: at most
  /// collective_timeout a piece. Default: there is one worker.
  [[nodiscard]] virtual std::vector<std::vector<std::byte>> gather_to_chief(
      Span<const std::byte> mine);
  /// Copies the chief's bytes to all workers, piece by piece. Shapes: the same count everywhere.
  /// Collective: yes.  Blocks: at most collective_timeout a piece. Default: there is one worker.
  virtual void broadcast(Span<std::byte> /*bytes*/) {}

  /// Makes buffers (batch-norm statistics) equal on all replicas: floating point ones become their
  /// mean, others the chief's first replica's. Each replica keeps its own while it trains;
  /// evaluation, reports and saved weights come after this call.  Collective: yes.
  virtual void synchronize_buffers(TrainState& state) = 0;

  /// What this worker's next step depends on beside its replicas, by name: a part of its
  /// checkpoint. Default: nothing.
  [[nodiscard]] virtual std::vector<NamedTensor> own_state() const { return {}; }
  /// Takes back what own_state() gave on the worker of this rank; empty: start without.
  /// Throws: CheckpointError.
  virtual void restore_own_state(const std::vector<NamedTensor>& /*tensors*/) {}

  /// Tells the group why this worker fails; best effort, never blocks long, never throws.
  virtual void abort(const std::string& reason, int exit_code) noexcept = 0;

  /// Collective goodbye; nothing but destruction may follow.  Blocks: at most close_timeout.
  virtual void close() = 0;
};

}  // namespace troupe
