// ParameterUpdate: how the gradients of one replica become new values of its parameters. The
// strategy chooses one; Replica::apply_gradients calls begin_backward() before the backward pass,
// reduce() and step() after it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "troupe/hooks/tensors/named_tensor.h"

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace troupe {

class ParameterUpdate {
 public:
  virtual ~ParameterUpdate() = default;
  /// What reduce() must know about the next backward pass.
  struct Backward {
    bool counts = true;        // false: examples are borrowed; it may leave no gradients
    bool sums_layers = false;  // it calls sum(), or the forward pass did
  };
  /// Called before the backward pass that completes the gradients of `parameters`. reduce() of the
  /// same parameters follows, unless the pass throws. Gradients may be taken away as they are
  /// computed. Default: nothing.
  /// Collective: yes.  Throws: as reduce().
  virtual void begin_backward(const std::vector<NamedTensor>& /*parameters*/,
                              const Backward& /*backward*/) {}

  /// Replaces parameters' gradients by their sums over all replicas: of all parameters, or of those
  /// whose step this replica takes (has_all_gradients()). A parameter without a
  /// gradient on this replica counts as zero; one without a gradient on any replica keeps none.
  /// Shapes: the same parameters in the same order on every replica.
  /// Default: nothing (one replica).
  /// Collective: yes.  Throws: NonFiniteError on every rank if the sum is not finite; NetError.
  virtual void reduce(const std::vector<NamedTensor>& /*parameters*/) {}

  /// Whether the last reduce() left every parameter's sum; false: those that this replica's step
  /// needs, and other parameters have no gradient. The same on every replica. Default: true.
  [[nodiscard]] virtual bool has_all_gradients() const { return true; }
  /// As Replica::keep_gradients(). Default: nothing.
  virtual void keep_gradients(bool /*keep*/) {}

  /// Takes the gradients of `parameters`, which the optimiser named `optimizer` owns, for an update
  /// after all virtual replicas of the step have run: neither reduce() nor step() follows now.
  /// False: they do. Default: false.  Throws: ConfigError.
  virtual bool postpone(const std::string& /*optimizer*/,
                        const std::vector<NamedTensor>& /*parameters*/) {
    return false;
  }

  /// One step of the optimiser named `name`, which owns `parameters`, with their reduced gradients.
  /// Default: optimizer.step() on this replica. Throws: what the optimiser throws; NetError.
  virtual void step(const std::string& name, torch::optim::Optimizer& optimizer,
                    const std::vector<NamedTensor>& parameters);

  /// Replaces `flat` [n], contiguous, float32 or float64, by its sum over all replicas that step
  /// together; for layers that normalise over the global batch. Default: nothing (one replica).
  /// Shapes: the same n on every replica.  Collective: yes.  Throws: NetError.
  virtual void sum(const at::Tensor& /*flat*/, const std::string& /*what*/) {}

  /// Whether what the weights of a step add up to is known to the strategy alone, after the
  /// gradients are summed: the strategy then divides by it, and replicas do not call sum() for it.
  /// The same throughout a step, and on every replica. Default: false.
  [[nodiscard]] virtual bool divides_later() const { return false; }
  /// With divides_later(), before reduce() or postpone() of gradients that are divided by the
  /// examples of the step for now: this replica's weights in the step. Default: nothing.
  virtual void take_weight(double /*weight*/) {}
};

}  // namespace troupe
