// LocalReplicas: what a worker does with its replicas, however many: makes them equal, runs steps
// on them, and adds up their gradients. The synchronous strategies are this and a group, or none.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/distributed/worker_group.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/strategies/engines/engine.h"
#include "troupe/strategies/gradients/overlapped_sum.h"
#include "troupe/strategies/gradients/replica_sum.h"
#include "troupe/strategies/replica_threads.h"
#include "troupe/strategies/replicas/shared_generator.h"
#include "troupe/strategies/replicas/virtual_replicas.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

/// A replica made by the hooks on its device. The generators are started with `seed`, for the
/// initial weights.
/// Throws: ConfigError, and TodoError for an unfilled template.
[[nodiscard]] std::unique_ptr<Replica> make_replica(const Hooks& hooks, const ReplicaPlace& place,
                                                    std::uint64_t seed, ParameterUpdate& update,
                                                    const StepOptions& options);

/// Runs `step` on the replica, which takes one share of the batch: to its device, module mode,
/// gradient switch, precision, and a result of zero when the share is padding. Losses come back
/// without their graphs.
/// With StepOptions::accumulate = N a training batch is run as N parts, the last of which updates
/// the parameters; the result is the sum of theirs. `steps` of training came before. Throws:
/// HookError for what the step throws; ConfigError as ReplicaDriver::check_result and end_step.
[[nodiscard]] StepResult run_on_replica(const Step& step, Replica& replica,
                                        const DistributedBatch& batch, std::size_t share,
                                        Phase phase, std::int64_t steps);

/// Calls `work(replica)` for every replica of `threads` at once, with the caller's modes, on its
/// device.  Blocks and throws: as ReplicaThreads::run.
void run_replicas(ReplicaThreads& threads, const std::vector<c10::Device>& devices,
                  const std::function<void(int)>& work);

class LocalReplicas {
 public:
  /// What a replica does with its gradients: an OverlappedSum, or a kind derived from it.
  using MakeUpdate = std::function<std::unique_ptr<OverlappedSum>(
      ReplicaSum& sum, const OverlappedSum::Place& place, const BucketOptions& options)>;

  /// The replicas of this worker in the group. It is alone until use() is called. `make_update`
  /// unset: plain OverlappedSums. With virtual replicas it is not used.
  /// Throws: EnvironmentError where threads cannot be started.
  LocalReplicas(const GroupView& view, const StrategyOptions& options,
                const MakeUpdate& make_update = nullptr);

  [[nodiscard]] int size() const { return threads_.size(); }

  /// See ReplicaSum::use.
  void use(Engine& engine, bool during_backward, std::shared_ptr<WaitMeter> waits) {
    sum_.use(engine, during_backward, std::move(waits));
  }
  /// In another round of an elastic group: the same replicas compute other virtual replicas.
  void move_to(const GroupView& view);
  /// See VirtualReplicas::use.
  void use(ElasticGroup& group) {
    virtual_->use(group);
    for (BlockSum* const block : blocks_) block->be_elastic();
  }
  /// See ReplicaSum::overlaps.
  [[nodiscard]] bool overlaps() const { return sum_.overlaps(); }

  /// Whether a step has thrown while its gradients were on their way: the other workers wait.
  [[nodiscard]] bool has_abandoned_a_sum() const { return updates_.front()->is_abandoned(); }

  /// A state whose replicas have equal weights, if `hooks` make equal models: each then has the
  /// first's parameters and buffers. Throws: ConfigError when the models differ.
  [[nodiscard]] TrainState make(const Hooks& hooks, std::uint64_t seed);

  /// As Strategy::run. Warns where replicas draw from a generator that they share. Throws: what
  /// the lowest replica's step threw.
  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase);

 private:
  [[nodiscard]] OverlappedSum::Place place(int replica) const;

  GroupView view_;
  int shards_;  // of the optimisers' state; 1: it is not divided
  StepOptions step_;
  ReplicaThreads threads_;
  ReplicaSum sum_;
  std::vector<std::unique_ptr<OverlappedSum>> updates_;  // by replica
  std::vector<BlockSum*> blocks_;                        // the same, of virtual replicas
  std::optional<VirtualReplicas> virtual_;
  SharedGenerator generator_;
};

/// Gives every replica the first one's parameters and buffers.
void copy_first_to_all(const TrainState& state);

}  // namespace troupe::detail
