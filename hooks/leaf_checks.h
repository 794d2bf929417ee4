// LeafChecks: finds layers that were forgotten. What a loss depends on, requires a gradient and
// lives longer than the step is a model's parameter, or nothing trains and saves it. Thread rule:
// the replica's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <unordered_set>
#include <vector>

#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe::detail {

class LeafChecks {
 public:
  /// `parameters` are those of all models.
  explicit LeafChecks(const std::vector<NamedTensor>& parameters);

  /// train_step itself changes `leaf`, which is no model's.
  void declare_not_trained(const at::Tensor& leaf) {
    not_trained_.insert(leaf.unsafeGetTensorImpl());
  }
  /// Forgets what the last step has left.
  void begin() { strangers_.clear(); }
  /// Remembers the leaves below `loss` that are no model's, and keeps none of them alive.
  void look(const at::Tensor& loss);
  /// After a step on `fields`, when its graph is gone.
  /// Throws: ConfigError if one of them lives on and is neither a field nor declared.
  void end(const std::vector<at::Tensor>& fields) {
    if (!strangers_.empty()) check(fields);
  }

 private:
  void check(const std::vector<at::Tensor>& fields);

  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::unordered_set<const c10::TensorImpl*> known_;
  std::unordered_set<const c10::TensorImpl*> not_trained_;
  std::vector<WeakTensor> strangers_;  // of the present step
};

}  // namespace troupe::detail
