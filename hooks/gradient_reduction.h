// GradientReduction: how gradients of one replica become the gradients of the step. The strategy
// chooses one; Replica::apply_gradients calls it between backward and the optimiser.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace troupe {

using NamedTensor = std::pair<std::string, at::Tensor>;

class GradientReduction {
 public:
  virtual ~GradientReduction() = default;
  /// Replaces every parameter's gradient by its sum over all replicas. A parameter without a
  /// gradient on this replica counts as zero; one without a gradient on any replica keeps none.
  /// Shapes: the same parameters in the same order on every replica.
  /// Collective: yes.  Throws: NonFiniteError on every rank when the sum is not finite; NetError.
  virtual void reduce(const std::vector<NamedTensor>& parameters) = 0;
};

}  // namespace troupe
