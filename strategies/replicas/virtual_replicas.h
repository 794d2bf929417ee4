// VirtualReplicas: a step where each device of a worker computes several virtual replicas, one
// after the other, so that its numbers do not depend on how many devices there are.
//
// Every virtual replica starts from the same weights and buffers, and from random numbers of its
// own; what it makes (gradients, losses, metrics, buffers) is added up along the tree over all
// virtual replicas. The step's sums are all made before any weight changes: first gradients, then
// all other numbers, then optimisers. Afterwards every worker holds the same.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/distributed/elastic/elastic_group.h"
#include "troupe/strategies/gradients/block_sum.h"
#include "troupe/strategies/group_view.h"
#include "troupe/strategies/replica_threads.h"
#include "troupe/strategies/replicas/shared_generator.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

class VirtualReplicas {
 public:
  /// `view`, `threads`, `sum` and `updates`, one for each device, outlive this object. With
  /// `check_repeat` every training step is computed twice.
  VirtualReplicas(const GroupView& view, ReplicaThreads& threads, ReplicaSum& sum,
                  std::vector<BlockSum*> updates, bool check_repeat);

  /// Steps are transactions of this group, which outlives this object: the end of a step's last sum
  /// over the workers, of a few numbers or buffers, is the moment from which it counts.
  void use(ElasticGroup& group) { group_ = &group; }

  /// For a state that was just made: starts random streams.
  void begin(const TrainState& state, std::uint64_t seed);

  /// As Strategy::run with virtual replicas. Throws: ConfigError, on every worker alike, where a
  /// step that is computed twice has other sums the second time, and where replicas that share a
  /// generator draw from it.
  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase);

 private:
  /// What a virtual replica has made, its gradients left out.
  struct Made {
    bool has_examples = false;
    LossValues losses;
    std::optional<double> weight;     // that losses and gradients are to be divided by; see
                                      // ReplicaDriver::undivided_weight
    std::vector<double> metrics;      // sums
    std::vector<at::Tensor> buffers;  // undefined where it changed nothing
  };
  /// Of all virtual replicas of a step.
  struct Total {
    StepResult result;
    double factor = 1;  // of the gradients
    std::vector<double> metrics;
    double with_examples = 0;          // virtual replicas
    std::vector<std::size_t> changed;  // buffers
    std::vector<at::Tensor> buffers;   // those, as they are after the step
    at::Tensor last;                   // the sums that were made last
  };

  /// All that the step sums; changes no weight, buffer or metric. Collective.
  [[nodiscard]] Total compute_all(const Step& step, TrainState& state,
                                  const DistributedBatch& batch, Phase phase);
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts_of(const TrainState& state,
                                                                          const Total& total) const;
  void compute(int device, const Step& step, TrainState& state, const DistributedBatch& batch,
               Phase phase);
  [[nodiscard]] Made compute_one(int device, int virtual_replica, const Step& step,
                                 TrainState& state, const DistributedBatch& batch, Phase phase);
  void add_over_workers(const at::Tensor& sums, const char* what);
  [[nodiscard]] Total add_up(const std::vector<NamedTensor>& buffers, double examples);
  void add_up_buffers(const std::vector<NamedTensor>& buffers, Total& total);
  void apply(const TrainState& state, const Total& total);

  /// Of the group's present round.
  [[nodiscard]] const Hosting& hosting() const { return *view_.hosting; }

  const GroupView& view_;
  SharedGenerator generator_;
  ReplicaThreads& threads_;
  ReplicaSum& sum_;
  const std::vector<BlockSum*> updates_;  // by device
  const bool check_repeat_;
  ElasticGroup* group_ = nullptr;  // null: a loss ends the run
  std::uint64_t seed_ = 0;
  std::vector<Made> made_;  // in the present step, by virtual replica of this worker
};

}  // namespace troupe::detail
