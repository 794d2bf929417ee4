// GradientChecks: finds in a replica's first training steps what hooks do to gradients beside
// apply_gradients: changes of .grad, which are too early or too late there, and functions that were
// registered on parameters, which see one replica's part of a gradient.
// Thread rule: the replica's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/hooks/phase.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe::detail {

class GradientChecks {
 public:
  /// `owned` outlives this object.
  explicit GradientChecks(const OwnedTensors& owned) : owned_(owned) {}

  /// Before each part of a step, which one of so many replicas computes.
  void begin(const StepContext& context, int replicas);
  /// Before a backward pass for these parameters, whose gradients are as train_step has left them.
  /// Throws: ConfigError if it has made some, or if functions are registered on a parameter whose
  /// sum over several gradients is not that of the sum.
  void before_update(const std::vector<NamedTensor>& parameters);
  /// The gradients are as the update has left them.
  void after_update() {
    if (looks_) remember();
  }
  /// Whether it looks at this step.
  [[nodiscard]] bool looks() const { return looks_; }
  /// When train_step has returned.  Throws: ConfigError if it has changed gradients since.
  void after_call();

 private:
  [[nodiscard]] bool is_changed(const at::Tensor& parameter) const;
  void remember();

  const OwnedTensors& owned_;
  bool looks_ = false;   // at this step
  bool splits_ = false;  // the step's gradient is a sum of several
  std::int64_t steps_ = 0;
  std::unordered_map<const c10::TensorImpl*, std::int64_t> seen_;  // bits, by parameter
};

}  // namespace troupe::detail
