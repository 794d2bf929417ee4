// Replica: one copy of the models on one device, and everything that a step may use. Hooks get a
// reference; the framework owns the replica, and with it all training state.
// Thread rule: one thread at a time. Shapes: B examples in this replica's batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "core/error.h"
#include "hooks/losses.h"
#include "hooks/metrics.h"
#include "hooks/parameter_update.h"
#include "hooks/phase.h"
#include "hooks/trainable.h"
#include "options/strategy_options.h"

namespace troupe {

/// A replica's position among all replicas of all workers.
struct ReplicaPlace {
  int index = 0;  // 0 .. count-1, over all workers
  int count = 1;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
};

namespace detail {
class ReplicaDriver;
class StepChecks;
class StepWeights;
}  // namespace detail

class Replica {
 public:
  /// Moves the models to the place's device. `update` outlives the replica.
  /// Throws: ConfigError if the result of create_model cannot be trained (no model, an optimiser
  /// that owns a tensor of no model, or a buffer with the name of a model's tensor).
  Replica(Trainable trainable, LossSet losses, const MetricSet& metrics, const ReplicaPlace& place,
          ParameterUpdate& update, const StepOptions& options = {});
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica();

  /// The model that create_model made, as its own type.
  /// Throws: ConfigError on a wrong name or type.
  template <class Net>
  [[nodiscard]] Net& model(const std::string& name = "model") {
    if (auto* net = dynamic_cast<Net*>(&module(name))) return *net;
    refuse_type(name, typeid(Net));
  }
  [[nodiscard]] torch::optim::Optimizer& optimizer(const std::string& name = "optimizer");
  /// The buffer that create_model added under this name, on the replica's device. Steps change it
  /// in place, by values without a graph: replica.buffer("ema").lerp_(loss.detach(), 0.01).
  [[nodiscard]] at::Tensor buffer(const std::string& name);
  [[nodiscard]] const LossFunction& loss(const std::string& name) const { return losses_.at(name); }
  [[nodiscard]] MetricSum& metric(const std::string& name);

  /// Sum of `per_example` [B] over the number of examples of the step over *all* replicas: a scalar
  /// whose sum over replicas is the mean loss, even if the last batch is short.
  /// Throws: ConfigError if it is not one value per example (a mean was taken already).
  [[nodiscard]] at::Tensor global_mean(const at::Tensor& per_example) const;

  /// The sum of `losses` times `weights` over what the weights add up to over *all* replicas and
  /// all parts of the step: a mean over tokens, or over what a mask leaves. A scalar whose sum over
  /// replicas is that mean; 0 if nothing weighs anything.
  /// With --accumulate, --virtual-replicas and synchronous parameter servers the sum of the weights
  /// is known only when the step's gradients are summed: until then the value is divided by the
  /// examples of the step, and all means of a step must have the same weights.
  /// Shapes: losses and weights [...], the same, one dimension or more; any type of weights.
  /// Collective: yes, on every replica in the same order: a sum of one number over all replicas;
  /// none for a tensor of weights that the step has used before.
  /// Throws: ConfigError for other shapes, for weights that are negative, not finite or depend on
  /// parameters, and for different means in a step that cannot have them; DesyncError; NetError.
  [[nodiscard]] at::Tensor global_mean(const at::Tensor& losses, const at::Tensor& weights) const;

  /// `loss` (scalar) itself, declared to be right as it is: its sum over all replicas that have
  /// examples, and over the parts of a step, is what counts. So it weighs W times as much on W
  /// replicas as on one; for a mean over replicas divide it by place().count. A term that does not
  /// depend on the examples, such as a penalty on weights, counts once if it is added to the losses
  /// [B]: global_mean(losses + term).
  /// Throws: ConfigError if it is not a scalar.
  [[nodiscard]] at::Tensor local_loss(const at::Tensor& loss) const;

  /// Runs backward from `loss` (scalar) to the parameters of one optimiser, sums their gradients
  /// over all replicas and takes the optimiser step. Other optimisers' parameters get no gradient.
  /// If a step is computed in parts (--accumulate), all but the last only add to the gradients. The
  /// n-th call for an optimiser in train_step is one update, from the n-th calls of all parts.
  /// Which optimisers a step applies may depend on progress().step and .epoch, which are the same
  /// on every replica, and on nothing that differs between replicas or parts. In the first step of
  /// a training at least one optimiser must be applied. Nothing else in train_step may change an
  /// optimiser's parameters; the first step looks. With
  /// --virtual-replicas it only takes the gradients: optimisers take their steps when every virtual
  /// replica's train_step has returned, so that nothing in it sees the new values.
  /// Collective: yes, on every replica, in the same order.
  /// Throws: ConfigError outside train_step, and, in the first steps, if `loss` was not computed
  /// from values of global_mean or local_loss; NonFiniteError (all ranks, before the step);
  /// DesyncError where replicas apply different ones; NetError.
  void apply_gradients(const at::Tensor& loss, const std::string& optimizer = "optimizer");

  [[nodiscard]] const ReplicaPlace& place() const { return place_; }
  [[nodiscard]] const StepOptions& step_options() const { return options_; }

  /// The global norm of an optimiser's gradients in its last update, before they were clipped;
  /// unset without --clip-norm and before the first update. The same bits on every replica.
  [[nodiscard]] std::optional<double> gradient_norm(
      const std::string& optimizer = "optimizer") const;

  /// Whether the last update left the sum of every gradient that the optimiser has. With
  /// --shard-optimizer false in most steps: a parameter's is then on the replica alone that steps
  /// it, and undefined elsewhere. The same on every replica.
  [[nodiscard]] bool has_all_gradients(const std::string& optimizer = "optimizer") const;
  /// With `keep` the updates after those of the next step leave all sums, until this has been
  /// called with false and another step has been made; whichever replicas call it. For who looks at
  /// gradients after a step. Without --shard-optimizer they are always there.
  void keep_gradients(bool keep);
  [[nodiscard]] Phase phase() const { return context_.phase; }
  [[nodiscard]] StepProgress progress() const {
    return {context_.step, context_.epoch, context_.part, context_.parts};
  }

  /// Parameters, then buffers, of all models in order; names as registered, prefixed with the
  /// model's name and a dot unless that name is "model". Buffers of the hooks' own come last, by
  /// the names that they were added under.
  [[nodiscard]] std::vector<NamedTensor> parameters() const;
  [[nodiscard]] std::vector<NamedTensor> buffers() const;
  /// By name, in the order of create_model.
  [[nodiscard]] const std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>>&
  models() const {
    return trainable_.models;
  }
  /// In the order of create_model.
  [[nodiscard]] std::vector<std::string> optimizer_names() const;

 private:
  friend class detail::ReplicaDriver;  // what the framework does with a replica
  // An optimiser, and how many times train_step has called apply_gradients for it before.
  using UpdateKey = std::pair<std::string, int>;

  /// What follows the sum of gradients: multiplies them by `factor`, clips them, and takes the
  /// optimiser's step.
  void finish_update(const std::string& optimizer, double factor);
  [[nodiscard]] torch::nn::Module& module(const std::string& name);
  [[noreturn]] void refuse_type(const std::string& model, const std::type_info& wanted);

  Trainable trainable_;
  // What each optimiser owns, by its name: fixed when the replica is made.
  std::vector<std::pair<std::string, std::vector<NamedTensor>>> owned_;
  LossSet losses_;
  std::array<MetricSet, 4> metrics_;  // by phase
  MetricSet discarded_;               // what a padding batch adds up
  ReplicaPlace place_;
  ParameterUpdate& update_;
  const StepOptions options_;
  detail::StepContext context_;
  std::map<std::string, int> calls_;        // of apply_gradients in this part, by optimiser
  std::map<std::string, int> first_calls_;  // the same in the first part of the step
  std::map<UpdateKey, std::vector<at::Tensor>> accumulated_;  // gradients of the earlier parts
  std::map<std::string, double> norms_;                       // by optimiser, if it clips
  std::map<std::string, bool> partial_;                       // by optimiser: !has_all_gradients()
  std::int64_t layer_sums_ = 0;                               // in this part
  std::unique_ptr<detail::StepChecks> checks_;
  std::unique_ptr<detail::StepWeights> weights_;
};

}  // namespace troupe
