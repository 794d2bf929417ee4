// ReplicaUpdates: the updates that train_step asks for, from losses or gradients to steps of
// optimisers: in parts, several at once, and what each optimiser has left.
// Thread rule: the replica's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/phase.h"
#include "troupe/hooks/tensors/named_tensor.h"
#include "troupe/hooks/trainable.h"

namespace troupe::detail {

class StepChecks;
class StepWeights;

class ReplicaUpdates {
 public:
  /// One backward pass and the optimisers that it is for; `gradients` not empty: instead of it.
  struct Pass {
    at::Tensor loss;
    std::vector<std::string> optimizers;
    std::vector<at::Tensor> gradients;
  };

  /// All of these outlive this object. `clip_norm` 0: no clipping.
  ReplicaUpdates(const OwnedTensors& owned, const Trainable& trainable, ParameterUpdate& update,
                 StepChecks& checks, StepWeights& weights, c10::Device device, double clip_norm)
      : owned_(owned),
        trainable_(trainable),
        update_(update),
        checks_(checks),
        weights_(weights),
        device_(device),
        clip_norm_(clip_norm) {}

  /// Throws: ConfigError if there is no such optimiser.
  [[nodiscard]] const std::vector<NamedTensor>& owned_by(const std::string& optimizer) const;

  /// Before each part of a step.
  void begin(const StepContext& context);
  /// As Replica::apply_gradients: all gradients are made before the first step, which changes
  /// weights that other passes need.
  void make(const std::vector<Pass>& passes);
  /// Before the sum number n within the step, of layers and gathered rows. Returns n, from 1.
  std::int64_t count_layer_sum() { return ++layer_sums_; }
  /// When the last part's train_step has returned: takes the steps of its updates.
  void end();
  /// What follows the sum of gradients: multiplies them by `factor`, clips them, and takes the
  /// optimiser's step.
  void finish(const std::string& optimizer, double factor);

  /// How often each optimiser was asked for in this part, and in the first one.
  [[nodiscard]] const std::map<std::string, int>& calls() const { return calls_; }
  [[nodiscard]] const std::map<std::string, int>& first_calls() const { return first_calls_; }
  /// The last loss that gradients were made from, without its graph, and for which optimiser.
  [[nodiscard]] const std::pair<at::Tensor, std::string>& last_loss() const { return last_loss_; }
  /// As Replica::gradient_norm and ReplicaDriver::has_all_gradients.
  [[nodiscard]] std::optional<double> norm_of(const std::string& optimizer) const;
  [[nodiscard]] bool has_all_gradients(const std::string& optimizer) const;

 private:
  // An optimiser, and how many times train_step has asked for it before.
  using Key = std::pair<std::string, int>;
  struct Update {
    Key key;
    const std::vector<NamedTensor>* parameters;
    std::vector<at::Tensor> gradients;  // while others are made
  };

  void check(const Pass& pass) const;
  /// The gradients of the earlier parts are put where backward adds to them.
  [[nodiscard]] std::vector<Update> begin_pass(const Pass& pass, bool overlaps);
  void run(const Pass& pass, const std::vector<Update>& updates, bool keeps_graph) const;
  /// With the gradients of all parts.
  void sum(const Update& update);

  [[nodiscard]] torch::optim::Optimizer& find(const std::string& optimizer) const;

  const OwnedTensors& owned_;
  const Trainable& trainable_;
  ParameterUpdate& update_;
  StepChecks& checks_;
  StepWeights& weights_;
  const c10::Device device_;
  const double clip_norm_;
  StepContext context_;
  std::pair<at::Tensor, std::string> last_loss_;
  std::map<std::string, int> calls_;
  std::map<std::string, int> first_calls_;
  std::map<Key, std::vector<at::Tensor>> accumulated_;  // gradients of the earlier parts
  /// Of a step in parts: its gradients, which train_step is not to reach, are multiplied by
  /// `factor`.
  struct Unfinished {
    std::string optimizer;
    double factor;
    std::vector<at::Tensor> gradients;
  };
  std::vector<Unfinished> unfinished_;
  std::map<std::string, double> norms_;  // by optimiser, if it clips
  std::map<std::string, bool> partial_;  // by optimiser: !has_all_gradients()
  std::int64_t layer_sums_ = 0;          // in this part
};

}  // namespace troupe::detail
