// PushedUpdate: gradients of a replica become new values on the parameter servers.
#pragma once

#include <memory>

#include "servers/tensors/server_exchange.h"
#include "strategies/gradients/overlapped_sum.h"

namespace troupe::detail {

/// What the replicas of one worker share; written by replica 0 between two meetings.
struct SharedUpdate {
  ServerExchange exchange;
  enum class Values { with_push, with_next_step };
  Values arrive = Values::with_next_step;
  const std::vector<NamedTensor>* newest = nullptr;  // replica 0's
};

/// Gradients are summed over this worker's replicas, as values of its layers are: a layer that
/// normalises does not see other workers. Replica 0 pushes the gradients for all. A replica alone
/// keeps sparse gradients sparse; of several, they are made dense.
class PushedUpdate final : public OverlappedSum {
 public:
  /// `sum` and `shared` outlive this object.
  PushedUpdate(ReplicaSum& sum, const Place& place, const BucketOptions& options,
               SharedUpdate& shared)
      : OverlappedSum(sum, place, options), shared_(shared) {}

  /// Nothing is taken while backward makes it.
  void begin_backward(const std::vector<NamedTensor>& /*parameters*/,
                      const Backward& /*backward*/) override {}
  void reduce(const std::vector<NamedTensor>& parameters) override;
  void step(const std::string& name, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& parameters) override;

 private:
  SharedUpdate& shared_;
};

}  // namespace troupe::detail
