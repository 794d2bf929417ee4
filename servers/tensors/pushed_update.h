// PushedUpdate: gradients of a replica become new values on the parameter servers.
#pragma once

#include <memory>

#include "servers/tensors/server_exchange.h"
#include "strategies/gradients/gradient_buckets.h"
#include "strategies/replicas/replica_threads.h"

namespace troupe::detail {

/// What the replicas of one worker share; written by replica 0 between two meetings.
struct SharedUpdate {
  ServerExchange exchange;
  enum class Values { with_push, with_next_step };
  Values arrive = Values::with_next_step;
  const std::vector<NamedTensor>* newest = nullptr;  // replica 0's
};

/// Gradients are summed over this worker's replicas; replica 0 pushes them for all. A replica alone
/// keeps sparse gradients sparse; of several, they are made dense.
class PushedUpdate final : public ParameterUpdate {
 public:
  /// All arguments outlive this object.
  PushedUpdate(GradientBuckets& gradients, ReplicaThreads& threads, int replica,
               SharedUpdate& shared)
      : gradients_(gradients), threads_(threads), replica_(replica), shared_(shared) {}

  void reduce(const std::vector<NamedTensor>& parameters) override;
  void step(const std::string& name, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& parameters) override;
  /// Over this worker's replicas alone: a layer that normalises does not see other workers.
  void sum(const at::Tensor& flat, const std::string& what) override { gradients_.sum(flat, what); }

 private:
  GradientBuckets& gradients_;
  ReplicaThreads& threads_;
  int replica_;
  SharedUpdate& shared_;
};

}  // namespace troupe::detail
