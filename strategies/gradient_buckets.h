// GradientBuckets: the one bridge between a replica's gradients and the flat tensors that replicas
// and workers add up.
//
// All gradients of one optimiser are laid end to end in one flat tensor per dtype (float32,
// float64), in parameter order, followed by one flag per parameter: 1 where this replica has a
// gradient. The flags tell a parameter that nobody used (it keeps no gradient, as on one device)
// from one that only some replicas used.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hooks/parameter_update.h"
#include "strategies/replica_sum.h"

namespace troupe {

/// Sums gradients over all replicas. One per replica; used by the thread that runs it.
class GradientBuckets final : public ParameterUpdate {
 public:
  /// `sum` outlives this object; `replica` is the number among those of this worker.
  GradientBuckets(detail::ReplicaSum& sum, int replica) : sum_(sum), replica_(replica) {}

  /// After it, gradients are views into the buckets, valid until the same parameters are reduced
  /// again. Sparse gradients are made dense.
  /// Throws: also ConfigError for a dtype other than float32 and float64.
  void reduce(const std::vector<NamedTensor>& parameters) override;

  void sum(const at::Tensor& flat, const std::string& what) override {
    (void)sum_.add_up(replica_, flat, {what, ""});
  }

  /// Lets the buckets of former models go.
  void forget() { buckets_.clear(); }

 private:
  /// Gradients of one optimiser and dtype.
  struct Bucket {
    at::Tensor flat;  // [values + parameters]
    detail::Summand summand;
  };

  /// Returns false when a reduced gradient may not be finite.
  [[nodiscard]] bool reduce_dtype(const std::vector<NamedTensor>& parameters, at::ScalarType dtype);
  [[nodiscard]] Bucket& bucket_of(const std::vector<NamedTensor>& parameters);

  detail::ReplicaSum& sum_;
  int replica_;
  // By all their parameters: two optimisers' gradients never share memory.
  std::map<std::vector<const void*>, Bucket> buckets_;
};

}  // namespace troupe
