// GradientBuckets: the one bridge between tensors and the flat spans that the worker group adds up.
//
// All gradients of one optimiser are laid end to end in one flat tensor per dtype (float32,
// float64), in parameter order, followed by one flag per parameter: 1 where this replica has a
// gradient. The flags tell a parameter that nobody used (it keeps no gradient, as on one device)
// from one that only some replicas used.
#pragma once

#include <map>
#include <vector>

#include "distributed/worker_group.h"
#include "hooks/gradient_reduction.h"

namespace troupe {

/// Sums gradients over a group of workers. One per replica; not thread safe.
class GradientBuckets final : public GradientReduction {
 public:
  /// `group` outlives this object.
  explicit GradientBuckets(WorkerGroup& group) : group_(group) {}

  /// After it, gradients are views into the buckets, valid until the same parameters are reduced
  /// again. Sparse gradients are made dense.
  /// Throws: also ConfigError for a dtype other than float32 and float64.
  void reduce(const std::vector<NamedTensor>& parameters) override;

 private:
  void reduce_dtype(const std::vector<NamedTensor>& parameters, at::ScalarType dtype);

  WorkerGroup& group_;
  // By first parameter and dtype: two optimisers' gradients never share memory.
  std::map<std::pair<const void*, at::ScalarType>, at::Tensor> buckets_;
};

}  // namespace troupe
