#include "hooks/replica.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>

#include "core/check.h"
#include "hooks/named.h"

namespace troupe {
namespace {

std::string prefix_of(const std::string& model) { return model == "model" ? "" : model + "."; }

}  // namespace

Replica::Replica(Trainable trainable, LossSet losses, const MetricSet& metrics,
                 const ReplicaPlace& place, ParameterUpdate& update, const StepOptions& options)
    : trainable_(std::move(trainable)),
      losses_(std::move(losses)),
      metrics_{metrics, metrics, metrics, metrics},
      discarded_(metrics),
      place_(place),
      update_(update),
      options_(options) {
  if (trainable_.models.empty()) {
    throw ConfigError("create_model returned no model.", "return at least one model.");
  }
  for (auto& [name, model] : trainable_.models) model->to(place_.device);
  for (auto& [name, optimizer] : trainable_.optimizers) {
    owned_.emplace_back(name, parameters_of(*optimizer));
  }
}

Replica::~Replica() = default;

torch::nn::Module& Replica::module(const std::string& name) {
  return *detail::find_named(trainable_.models, name, "model", "create_model");
}

torch::optim::Optimizer& Replica::optimizer(const std::string& name) {
  return *detail::find_named(trainable_.optimizers, name, "optimizer", "create_model");
}

MetricSet& Replica::metrics(Phase phase) { return metrics_[static_cast<std::size_t>(phase)]; }

MetricSum& Replica::metric(const std::string& name) {
  return context_.stand_in ? discarded_.at(name) : metrics(context_.phase).at(name);
}

at::Tensor Replica::global_mean(const at::Tensor& per_example) const {
  if (per_example.dim() != 1 || per_example.size(0) != context_.examples) {
    throw ConfigError(text("global_mean was given a loss of shape ", per_example.sizes(), " for ",
                           context_.examples, " examples."),
                      "pass one loss per example, [B]: the losses in create_losses must not take "
                      "the mean (torch::kNone).");
  }
  TROUPE_CHECK(context_.global_examples > 0);
  return per_example.sum() / static_cast<double>(context_.global_examples);
}

void Replica::apply_gradients(const at::Tensor& loss, const std::string& optimizer_name) {
  if (context_.phase != Phase::train) {
    throw ConfigError(text("apply_gradients was called in a ", to_string(context_.phase), " step."),
                      "call it in train_step only.");
  }
  auto& optimizer = this->optimizer(optimizer_name);
  if (loss.dim() != 0 || !loss.requires_grad()) {
    throw ConfigError(text("apply_gradients was given a loss of shape ", loss.sizes(),
                           loss.requires_grad() ? "." : " that depends on no parameter."),
                      "pass the scalar that global_mean returned.");
  }
  const auto& parameters = detail::find_named(owned_, optimizer_name, "optimizer", "create_model");
  std::vector<at::Tensor> inputs;
  for (const auto& [name, parameter] : parameters) {
    parameter.mutable_grad() = at::Tensor();  // undefined, so that backward moves its result in
    inputs.push_back(parameter);
  }
  if (!context_.stand_in) {
    torch::autograd::backward({loss}, {}, /*retain_graph=*/c10::nullopt, /*create_graph=*/false,
                              inputs);
  }
  update_.reduce(parameters);
  update_.step(optimizer_name, optimizer, parameters);
}

void Replica::set_training_mode(Phase phase) {
  for (auto& [name, model] : trainable_.models) model->train(phase == Phase::train);
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
  return all;
}

std::vector<std::string> Replica::optimizer_names() const {
  std::vector<std::string> names;
  for (const auto& [name, optimizer] : trainable_.optimizers) names.push_back(name);
  return names;
}

std::vector<NamedTensor> Replica::parameters_of(torch::optim::Optimizer& optimizer) const {
  const std::vector<NamedTensor> known = parameters();
  std::vector<NamedTensor> owned;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& tensor : group.params()) {
      const auto match = std::find_if(
          known.begin(), known.end(),
          [&](const NamedTensor& candidate) { return candidate.second.is_same(tensor); });
      if (match == known.end()) {
        throw ConfigError(text("an optimiser owns a tensor of shape ", tensor.sizes(),
                               " that is a parameter of no model."),
                          "make the optimiser from the parameters of the models that create_model "
                          "returns.");
      }
      owned.push_back(*match);
    }
  }
  return owned;
}

}  // namespace troupe
