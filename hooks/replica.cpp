#include "hooks/replica.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "core/check.h"
#include "core/trace.h"
#include "hooks/autocast.h"
#include "hooks/gradient_norm.h"
#include "hooks/named.h"
#include "hooks/step_checks.h"
#include "hooks/step_weights.h"

namespace troupe {
namespace {

std::string prefix_of(const std::string& model) { return model == "model" ? "" : model + "."; }

/// Those of `all` that the optimiser owns. Throws: ConfigError if it owns another tensor.
std::vector<NamedTensor> parameters_of(torch::optim::Optimizer& optimizer,
                                       const std::vector<NamedTensor>& all) {
  const detail::PlaceOfTensor places = detail::place_of_tensor(all);
  std::vector<NamedTensor> owned;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& tensor : group.params()) {
      const auto place = places.find(tensor.unsafeGetTensorImpl());
      if (place == places.end()) {
        throw ConfigError(text("an optimiser owns a tensor of shape ", tensor.sizes(),
                               " that is a parameter of no model."),
                          "make the optimiser from the parameters of the models that create_model "
                          "returns.");
      }
      owned.push_back(all[place->second]);
    }
  }
  return owned;
}

/// Hooks' own buffers are found by their plain names, as a model's tensors are.
void check_buffer_names(const std::vector<NamedTensor>& parameters,
                        const std::vector<NamedTensor>& buffers) {
  std::set<std::string> names;
  for (const auto* tensors : {&parameters, &buffers}) {
    for (const auto& [name, tensor] : *tensors) {
      if (names.insert(name).second) continue;
      throw ConfigError(text("create_model added a buffer \"", name,
                             "\", which is the name of a model's parameter or buffer."),
                        "give add_buffer another name.");
    }
  }
}

struct Backward {
  bool padding = false;  // its gradients do not count
  bool runs = true;
};

/// Adds the gradients of `loss` to those of the earlier parts and leaves the sum in .grad.
void accumulate(const at::Tensor& loss, const std::vector<NamedTensor>& parameters,
                std::vector<at::Tensor> earlier, const Backward& backward) {
  earlier.resize(parameters.size());
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i].second;
    // Undefined in the first part, so that backward moves its result in.
    parameter.mutable_grad() = backward.padding ? at::Tensor() : std::move(earlier[i]);
    inputs.push_back(parameter);
  }
  if (backward.runs) {
    const Traced traced("backward");
    torch::autograd::backward({loss}, {}, /*retain_graph=*/c10::nullopt, /*create_graph=*/false,
                              inputs);
  }
  if (!backward.padding) return;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].second.mutable_grad() = std::move(earlier[i]);
  }
}

}  // namespace

void ParameterUpdate::step(const std::string& /*name*/, torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& /*parameters*/) {
  optimizer.step();
}

Replica::Replica(Trainable trainable, LossSet losses, const MetricSet& metrics,
                 const ReplicaPlace& place, ParameterUpdate& update, const StepOptions& options)
    : trainable_(std::move(trainable)),
      losses_(std::move(losses)),
      metrics_{metrics, metrics, metrics, metrics},
      discarded_(metrics),
      place_(place),
      update_(update),
      options_(options) {
  options_.validate();
  if (trainable_.models.empty()) {
    throw ConfigError("create_model returned no model.", "return at least one model.");
  }
  for (auto& [name, model] : trainable_.models) model->to(place_.device);
  for (auto& [name, buffer] :
       trainable_.buffers) {  // a copy: replicas may be given the same tensor
    buffer = torch::empty_like(buffer, place_.device).copy_(buffer.detach());
  }
  const std::vector<NamedTensor> all = parameters();
  check_buffer_names(all, buffers());
  for (auto& [name, optimizer] : trainable_.optimizers) {
    owned_.emplace_back(name, parameters_of(*optimizer, all));
  }
  checks_ = std::make_unique<detail::StepChecks>(owned_, /*warns=*/place_.index == 0);
  weights_ = std::make_unique<detail::StepWeights>(update_, place_.device);
}

Replica::~Replica() = default;

torch::nn::Module& Replica::module(const std::string& name) {
  return *detail::find_named(trainable_.models, name, "model", "create_model");
}

void Replica::refuse_type(const std::string& model, const std::type_info& wanted) {
  const auto& made = module(model);
  const std::string type = c10::demangle(typeid(made).name());
  throw ConfigError(
      text("model \"", model, "\" is a ", type, ", not a ", c10::demangle(wanted.name()), "."),
      text("ask for the type that create_model made: replica.model<", type, ">(",
           model == "model" ? "" : "\"" + model + "\"", ")."));
}

torch::optim::Optimizer& Replica::optimizer(const std::string& name) {
  return *detail::find_named(trainable_.optimizers, name, "optimizer", "create_model");
}

at::Tensor Replica::buffer(const std::string& name) {
  return detail::find_named(trainable_.buffers, name, "buffer", "create_model");
}

MetricSum& Replica::metric(const std::string& name) {
  MetricSet& own = metrics_[static_cast<std::size_t>(context_.phase)];
  return context_.padding ? discarded_.at(name) : own.at(name);
}

at::Tensor Replica::global_mean(const at::Tensor& per_example) const {
  if (per_example.dim() != 1 || per_example.size(0) != context_.examples) {
    throw ConfigError(text("global_mean was given a loss of shape ", per_example.sizes(), " for ",
                           context_.examples, " examples."),
                      "pass one loss per example, [B]: the losses in create_losses must not take "
                      "the mean (torch::kNone). For one loss per token there is "
                      "global_mean(losses, weights).");
  }
  const at::Tensor mean = weights_->divide(detail::in_float32(per_example).sum(), {});
  checks_->declare(mean);
  return mean;
}

at::Tensor Replica::global_mean(const at::Tensor& losses, const at::Tensor& weights) const {
  const auto shape = [](const at::Tensor& t) {
    return t.defined() ? text(t.sizes()) : "undefined";
  };
  if (!losses.defined() || !weights.defined() || losses.dim() == 0 ||
      losses.sizes() != weights.sizes()) {
    throw ConfigError(text("global_mean was given losses of shape ", shape(losses),
                           " and weights of shape ", shape(weights), "."),
                      "pass one weight per loss, and losses of which no mean is taken "
                      "(torch::kNone).");
  }
  if (weights.requires_grad()) {
    throw ConfigError("global_mean was given weights that depend on parameters.",
                      "pass weights.detach(), or multiply the losses by them and give "
                      "global_mean(losses * weights) alone.");
  }
  const at::Tensor wide = detail::in_float32(losses);
  const at::Tensor mean = weights_->divide((wide * weights.to(wide.scalar_type())).sum(), weights);
  checks_->declare(mean);
  return mean;
}

at::Tensor Replica::local_loss(const at::Tensor& loss) const {
  if (!loss.defined() || loss.dim() != 0) {
    throw ConfigError(text("local_loss was given a loss of shape ",
                           loss.defined() ? text(loss.sizes()) : "undefined", "."),
                      "pass a scalar; for one loss per example, [B], there is global_mean.");
  }
  checks_->declare(loss);
  return loss;
}

void Replica::apply_gradients(const at::Tensor& loss, const std::string& optimizer_name) {
  if (context_.phase != Phase::train) {
    throw ConfigError(text("apply_gradients was called in a ", to_string(context_.phase), " step."),
                      "call it in train_step only.");
  }
  const Traced traced("apply_gradients");
  if (loss.dim() != 0 || !loss.requires_grad()) {
    throw ConfigError(text("apply_gradients was given a loss of shape ", loss.sizes(),
                           loss.requires_grad() ? "." : " that depends on no parameter."),
                      "pass the scalar that global_mean returned.");
  }
  const auto& parameters = detail::find_named(owned_, optimizer_name, "optimizer", "create_model");
  const detail::AutocastPause full_precision(place_.device);
  const UpdateKey update(optimizer_name, calls_[optimizer_name]++);
  checks_->before_update(loss, update.first, update.second);
  const bool last = context_.part + 1 == context_.parts;
  if (last) update_.begin_backward(parameters, {!context_.padding, layer_sums_ > 0});
  // Layers that add up over replicas do so in backward too, and wait for padding batches there.
  const Backward backward{context_.padding, !context_.padding || layer_sums_ > 0};
  accumulate(loss, parameters, std::move(accumulated_[update]), backward);
  if (!last) {
    auto& kept = accumulated_[update];
    kept.clear();
    for (const auto& [name, parameter] : parameters) {
      kept.push_back(std::move(parameter.mutable_grad()));
    }
    return;
  }
  accumulated_.erase(update);
  const bool divides_later = update_.divides_later();
  if (divides_later && weights_->is_late()) update_.take_weight(weights_->own());
  if (!update_.postpone(optimizer_name, parameters)) {
    {
      const Traced reducing("reduce gradients");
      update_.reduce(parameters);
    }
    partial_[optimizer_name] = !update_.has_all_gradients();
    finish_update(optimizer_name, weights_->is_late() && !divides_later ? weights_->factor() : 1.0);
  }
  checks_->after_update();
}

void Replica::finish_update(const std::string& optimizer, double factor) {
  const auto& parameters = detail::find_named(owned_, optimizer, "optimizer", "create_model");
  if (factor != 1) detail::scale_gradients(parameters, factor);
  if (options_.clip_norm > 0) {
    norms_[optimizer] = detail::clip_gradients(parameters, options_.clip_norm, update_);
  }
  const Traced stepping("optimizer step");
  update_.step(optimizer, this->optimizer(optimizer), parameters);
}

bool Replica::has_all_gradients(const std::string& optimizer) const {
  const auto partial = partial_.find(optimizer);
  return partial == partial_.end() || !partial->second;
}

void Replica::keep_gradients(bool keep) { update_.keep_gradients(keep); }

std::optional<double> Replica::gradient_norm(const std::string& optimizer) const {
  const auto norm = norms_.find(optimizer);
  if (norm == norms_.end()) return std::nullopt;
  return norm->second;
}

std::vector<NamedTensor> Replica::parameters() const {
  std::vector<NamedTensor> all;
  for (const auto& [model_name, model] : trainable_.models) {
    for (const auto& item : model->named_parameters()) {
      all.emplace_back(prefix_of(model_name) + item.key(), item.value());
    }
  }
  return all;
}

std::vector<NamedTensor> Replica::buffers() const {
  std::vector<NamedTensor> all;
  for (const auto& [model_name, model] : trainable_.models) {
    for (const auto& item : model->named_buffers()) {
      all.emplace_back(prefix_of(model_name) + item.key(), item.value());
    }
  }
  all.insert(all.end(), trainable_.buffers.begin(), trainable_.buffers.end());
  return all;
}

std::vector<std::string> Replica::optimizer_names() const {
  std::vector<std::string> names;
  for (const auto& [name, optimizer] : trainable_.optimizers) names.push_back(name);
  return names;
}

}  // namespace troupe
