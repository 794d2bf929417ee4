// Replica: one copy of the models on one device, and everything that a step may use. Hooks get a
// reference; the framework owns the replica, and with it all training state.
// Thread rule: one thread at a time. Shapes: B examples in this replica's batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/hooks/losses.h"
#include "troupe/hooks/metrics.h"
#include "troupe/hooks/phase.h"
#include "troupe/hooks/tensors/recorder.h"
#include "troupe/hooks/trainable.h"

namespace troupe {

class ParameterUpdate;

/// A replica's position among all replicas of all workers.
struct ReplicaPlace {
  int index = 0;  // 0 .. count-1, over all workers
  int count = 1;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
};

namespace detail {
class OwnMemory;
class ReplicaUpdates;
class ReplicaDriver;
class StepChecks;
class StepWeights;

/// Throws: ConfigError for a wrong name.
[[nodiscard]] torch::nn::Module& find_model(const Trainable& trainable, const std::string& name);
/// Throws: ConfigError saying which type the model has.
[[noreturn]] void refuse_type(const Trainable& trainable, const std::string& model,
                              const std::type_info& wanted);
}  // namespace detail

class Replica {
 public:
  /// Moves the models to the place's device. `update` outlives the replica.
  /// Throws: ConfigError if the result of create_model cannot be trained (no model, an optimiser
  /// that owns a tensor of no model, a buffer with the name of a model's tensor, or tensors that
  /// another replica of the process has; a model that is frozen may be shared).
  Replica(Trainable trainable, LossSet losses, const MetricSet& metrics, const ReplicaPlace& place,
          ParameterUpdate& update, const StepOptions& options = {});
  ~Replica();

  /// The model that create_model made, as its own type.
  /// Throws: ConfigError on a wrong name or type.
  template <class Net>
  [[nodiscard]] Net& model(const std::string& name = "model") {
    if (auto* net = dynamic_cast<Net*>(&detail::find_model(trainable_, name))) return *net;
    detail::refuse_type(trainable_, name, typeid(Net));
  }
  [[nodiscard]] torch::optim::Optimizer& optimizer(const std::string& name = "optimizer");
  /// The buffer that create_model added under this name, on the replica's device, or its own
  /// tensor (Trainable::add_own). Steps change it in place, by values without a graph:
  /// replica.buffer("mean_input").lerp_(batch.fields[0].mean(), 0.01).
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

  /// The rows of all replicas, and where this one's begin.
  struct Gathered {
    at::Tensor rows;         // [N, ...], by place().index
    std::int64_t begin = 0;  // this replica's are rows[begin] .. rows[begin + B - 1]
  };
  /// `own` [B, ...] of all replicas of the step: for a loss that compares each example with every
  /// other one, as contrastive learning does. Bit for bit, of real numbers, integers and booleans.
  ///   const auto [all, begin] = replica.all_gather(own);
  ///   const at::Tensor target = begin + torch::arange(own.size(0));
  /// Gradients flow back to whoever made a row, summed over all replicas' uses, without a second
  /// derivative. So losses [B] of own rows are given to global_mean as they are, and one number L
  /// of all rows, which every replica computes alike, as global_mean(L.expand({B})). A replica
  /// whose examples are borrowed gives no rows, and finds the first one's at 0.
  /// Not with --accumulate, with several virtual replicas on a device, in an elastic group, with
  /// synchronous parameter servers, or in predict_step: there no replica has all rows.
  /// Shapes: any B, also 0; the rest and the type the same on every replica.
  /// Collective: in every step but predict_step, twice here and once in backward, in the same order
  /// on every replica.  Throws: ConfigError, also where it is refused; DesyncError; NetError.
  /// Cost: a sum of N rows over all replicas, forward and backward.
  [[nodiscard]] Gathered all_gather(const at::Tensor& own);

  /// Declares that `leaf`, which requires a gradient and is a parameter of no model, is meant to be
  /// trained by no optimiser, and that train_step itself changes it: a perturbation of the inputs
  /// that lives longer than a step. Others of its kind are refused as layers that were not
  /// registered.
  void not_trained(const at::Tensor& leaf);

  /// Runs backward from `loss` (scalar) to the parameters of one optimiser, sums their gradients
  /// over all replicas and takes the optimiser step. Other optimisers' parameters get no gradient.
  /// If a step is computed in parts (--accumulate), all but the last only add to the gradients, and
  /// optimisers take their steps when the last part's train_step has returned, so that no part sees
  /// new values.
  /// Which optimisers a step applies may depend on progress().step and .epoch, which are the same
  /// on every replica, and on nothing that differs between replicas or parts. In the first step of
  /// a training at least one optimiser must be applied. Nothing else in train_step may change an
  /// optimiser's parameters; the first step looks. With
  /// --virtual-replicas it only takes the gradients: optimisers take their steps when every virtual
  /// replica's train_step has returned, so that nothing in it sees the new values.
  /// Frozen parameters (requires_grad off) keep their values; which are frozen may change before
  /// any call, alike on every replica. A loss without a graph, of a batch that has nothing to learn
  /// from, gives no gradient.
  /// Collective: yes, on every replica, in the same order.
  /// Throws: ConfigError outside train_step, and, in the first steps, if `loss` was not computed
  /// from values of global_mean or local_loss, or if no parameter of the optimiser got a gradient
  /// on any replica; NonFiniteError (all ranks, before the step); DesyncError where replicas apply
  /// different ones; NetError.
  void apply_gradients(const at::Tensor& loss, const std::string& optimizer = "optimizer");
  /// One loss for several optimisers: one backward pass, then their steps.
  ///   replica.apply_gradients(loss, {"encoder", "decoder"});
  void apply_gradients(const at::Tensor& loss, std::initializer_list<std::string> optimizers);
  /// Several losses that share a forward pass, each for its optimiser: all backward passes first,
  /// since a step changes weights that the next pass needs, then all steps, in this order. Two
  /// calls for two losses of one graph would find it gone.
  ///   replica.apply_gradients({{actor_loss, "actor"}, {critic_loss, "critic"}});
  void apply_gradients(const std::vector<std::pair<at::Tensor, std::string>>& losses);
  /// Gradients that train_step made itself (torch::autograd::grad), one for each of
  /// parameters(optimizer), in that order, undefined where there is none. Their sum over replicas
  /// and over the parts of a step is the gradient, so make them from values of global_mean; what is
  /// not linear in them (a projection, a norm) then sees this replica's share. Frozen parameters'
  /// are left out.
  /// Shapes and types: the parameters'.
  void apply_gradients(const std::vector<at::Tensor>& gradients,
                       const std::string& optimizer = "optimizer");

  [[nodiscard]] const ReplicaPlace& place() const { return place_; }

  /// The global norm of an optimiser's gradients in its last update, before they were clipped;
  /// unset without --clip-norm and before the first update. The same bits on every replica.
  [[nodiscard]] std::optional<double> gradient_norm(
      const std::string& optimizer = "optimizer") const;

  /// For pictures, histograms and texts of the present step: replica.recorder().log_image(...).
  [[nodiscard]] Recorder& recorder() { return recorder_; }

  [[nodiscard]] StepProgress progress() const {
    return {context_.step, context_.epoch, context_.part, context_.parts, context_.phase};
  }

  /// Parameters, then buffers, of all models in order, each tensor once, by the first of its names:
  /// as registered, prefixed with the model's name and a dot unless that name is "model". Buffers
  /// of the hooks' own come last, by the names that they were added under.
  [[nodiscard]] std::vector<NamedTensor> parameters() const;
  /// Those that an optimiser owns, in the order of its groups. Each tensor is there once.
  [[nodiscard]] std::vector<NamedTensor> parameters(const std::string& optimizer) const;
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
  Trainable trainable_;
  LossSet losses_;
  std::array<MetricSet, 4> metrics_;  // by phase
  MetricSet discarded_;               // what a padding batch adds up
  ReplicaPlace place_;
  ParameterUpdate& update_;
  StepOptions options_;
  detail::StepContext context_;
  Recorder recorder_;
  // While it evaluates: every module and the mode in which it trains.
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> training_modes_;
  detail::OwnedTensors owned_;
  std::unique_ptr<detail::StepChecks> checks_;
  std::unique_ptr<detail::StepWeights> weights_;
  std::unique_ptr<detail::ReplicaUpdates> updates_;
  std::unique_ptr<detail::OwnMemory> memory_;
};

namespace detail {
/// Parameters, then buffers.
[[nodiscard]] std::vector<NamedTensor> state_of(const Replica& replica);
}  // namespace detail

}  // namespace troupe
