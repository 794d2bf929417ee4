#include "troupe/hooks/replica_updates.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/hooks/gradient_norm.h"
#include "troupe/hooks/named.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/hooks/step_checks.h"
#include "troupe/hooks/step_weights.h"
#include "troupe/hooks/tensors/autocast.h"

namespace troupe::detail {
namespace {

std::vector<at::Tensor> take_gradients(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) {
    gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  }
  return gradients;
}

void put_gradients(const std::vector<NamedTensor>& parameters, std::vector<at::Tensor> gradients) {
  gradients.resize(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].second.mutable_grad() = std::move(gradients[i]);
  }
}

void add_gradients(const std::vector<NamedTensor>& parameters,
                   const std::vector<at::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined() || !parameters[i].second.requires_grad()) continue;
    at::Tensor& into = parameters[i].second.mutable_grad();
    into = into.defined() ? into + gradients[i] : gradients[i].detach().clone();
  }
}

/// Leaves copies, so that what a hook does to them is seen.
void show(const std::vector<at::Tensor>& gradients, const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& gradient : gradients)
    copies.push_back(gradient.defined() ? gradient.clone() : gradient);
  put_gradients(parameters, std::move(copies));
}

void check_own(const std::vector<at::Tensor>& gradients, const std::string& optimizer,
               const std::vector<NamedTensor>& parameters) {
  if (gradients.size() != parameters.size()) {
    throw ConfigError(text("apply_gradients was given ", gradients.size(), " gradients for the ",
                           parameters.size(), " parameters of optimizer \"", optimizer, "\"."),
                      "give one for each of replica.parameters(\"" + optimizer +
                          "\"), in that order; an undefined tensor where there is none.");
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const at::Tensor& gradient = gradients[i];
    if (!gradient.defined() || (gradient.sizes() == parameter.sizes() &&
                                gradient.scalar_type() == parameter.scalar_type())) {
      continue;
    }
    throw ConfigError(text("apply_gradients was given a gradient of ", gradient.scalar_type(), " ",
                           gradient.sizes(), " for parameter \"", name, "\", which is ",
                           parameter.scalar_type(), " ", parameter.sizes(), "."),
                      "give gradients of the parameters' types and shapes.");
  }
}

}  // namespace

const std::vector<NamedTensor>& ReplicaUpdates::owned_by(const std::string& optimizer) const {
  return find_named(owned_, optimizer, "optimizer", "create_model");
}

torch::optim::Optimizer& ReplicaUpdates::find(const std::string& optimizer) const {
  return *find_named(trainable_.optimizers, optimizer, "optimizer", "create_model");
}

void ReplicaUpdates::begin(const StepContext& context) {
  if (context.part == 1) first_calls_ = calls_;
  context_ = context;
  calls_.clear();
  layer_sums_ = 0;
  if (context.part != 0) return;
  accumulated_.clear();
  unfinished_.clear();
}

void ReplicaUpdates::check(const Pass& pass) const {
  if (context_.phase != Phase::train) {
    throw ConfigError(text("apply_gradients was called in a ", to_string(context_.phase), " step."),
                      "call it in train_step only.");
  }
  if (!pass.gradients.empty()) {
    return check_own(pass.gradients, pass.optimizers.front(), owned_by(pass.optimizers.front()));
  }
  if (pass.loss.defined() && pass.loss.dim() == 0) return;
  throw ConfigError(text("apply_gradients was given a loss of shape ", shape_text(pass.loss), "."),
                    "pass the scalar that global_mean returned.");
}

void ReplicaUpdates::make(const std::vector<Pass>& passes) {
  for (const Pass& pass : passes) {
    check(pass);
    // A loss that is not finite already stays what is told of a step.
    if (pass.loss.defined()) last_loss_ = {pass.loss.detach(), pass.optimizers.front()};
  }
  const Traced traced("apply_gradients");
  const AutocastPause full_precision(device_);
  const bool last = context_.part + 1 == context_.parts;
  const bool is_single =
      passes.size() == 1 && passes[0].optimizers.size() == 1 && passes[0].gradients.empty();
  // Gradients that nothing else is made beside, and that count, stay where backward leaves them.
  const bool stays = is_single && !context_.padding;
  std::vector<Update> all;
  for (std::size_t p = 0; p < passes.size(); ++p) {
    std::vector<Update> updates = begin_pass(passes[p], last && is_single);
    run(passes[p], updates, /*keeps_graph=*/p + 1 < passes.size());
    for (Update& update : updates) {
      checks_.unused().after_backward(update.key.first);
      if (!stays) {
        auto made = take_gradients(*update.parameters);
        if (!context_.padding) update.gradients = std::move(made);
      }
      all.push_back(std::move(update));
    }
  }
  for (Update& update : all) {
    if (!last) {
      accumulated_[update.key] =
          stays ? take_gradients(*update.parameters) : std::move(update.gradients);
      continue;
    }
    if (!stays) put_gradients(*update.parameters, std::move(update.gradients));
    sum(update);
  }
  if (!last) return;
  checks_.gradients().after_update();
  if (unfinished_.empty()) checks_.after_update();
}

std::vector<ReplicaUpdates::Update> ReplicaUpdates::begin_pass(const Pass& pass, bool overlaps) {
  std::vector<Update> updates;
  for (const std::string& name : pass.optimizers) {
    const auto& parameters = owned_by(name);
    const Key key(name, calls_[name]++);
    if (key.second > 0) checks_.repeats().refuse_second_update(name);
    if (pass.gradients.empty()) {
      checks_.before_update(pass.loss, key.first, key.second);
    } else {
      checks_.before_own_update();
    }
    checks_.gradients().before_update(parameters);
    // Layers that add up over replicas do so in backward too.
    if (overlaps) update_.begin_backward(parameters, {!context_.padding, layer_sums_ > 0});
    std::vector<at::Tensor> earlier = std::move(accumulated_[key]);
    accumulated_.erase(key);
    updates.push_back({key, &parameters, {}});
    // Undefined in the first part, so that backward moves its result in.
    put_gradients(parameters, context_.padding ? std::vector<at::Tensor>() : earlier);
    if (context_.padding) updates.back().gradients = std::move(earlier);
  }
  return updates;
}

void ReplicaUpdates::run(const Pass& pass, const std::vector<Update>& updates,
                         bool keeps_graph) const {
  if (!pass.gradients.empty()) return add_gradients(*updates.front().parameters, pass.gradients);
  // Others wait for the sums of layers, but for nothing else that padding makes.
  if (context_.padding && layer_sums_ == 0) return;
  std::vector<at::Tensor> inputs;
  for (const Update& update : updates) {
    for (const auto& [name, parameter] : *update.parameters) {
      if (!parameter.requires_grad()) continue;
      const at::Tensor& input = parameter;
      const auto is_input = [&](const at::Tensor& other) { return other.is_same(input); };
      if (updates.size() > 1 && std::any_of(inputs.begin(), inputs.end(), is_input)) {
        throw ConfigError(
            "one loss was given to several optimisers, and more than one of them owns "
            "parameter \"" +
                name + "\".",
            "give each parameter to one of them.");
      }
      inputs.push_back(input);
    }
  }
  // Without inputs LibTorch would give every leaf of the graph a gradient.
  if (inputs.empty() || !pass.loss.requires_grad()) return;
  {
    const Traced traced("backward");
    torch::autograd::backward({pass.loss}, {}, keeps_graph, /*create_graph=*/false, inputs);
  }
  for (const Update& update : updates) {
    for (const auto& [name, parameter] : *update.parameters) {
      if (parameter.grad().defined() && parameter.grad().is_sparse())
        check_takes_sparse(find(update.key.first), update.key.first, name);
    }
  }
}

void ReplicaUpdates::sum(const Update& update) {
  const std::string& optimizer = update.key.first;
  const bool divides_later = update_.divides_later();
  if (divides_later && weights_.is_late()) update_.take_weight(weights_.own());
  if (update_.postpone(optimizer, *update.parameters)) return;
  {
    const Traced reducing("reduce gradients");
    update_.reduce(*update.parameters);
  }
  partial_[optimizer] = !update_.has_all_gradients();
  const double factor = weights_.is_late() && !divides_later ? weights_.factor() : 1.0;
  // Every part of a step sees the weights that it began with.
  if (context_.parts > 1) {
    unfinished_.push_back({optimizer, factor, take_gradients(*update.parameters)});
    if (checks_.gradients().looks()) show(unfinished_.back().gradients, *update.parameters);
  } else {
    finish(optimizer, factor);
  }
}

void ReplicaUpdates::end() {
  if (unfinished_.empty()) return;
  for (auto& [optimizer, factor, gradients] : std::exchange(unfinished_, {})) {
    put_gradients(owned_by(optimizer), std::move(gradients));
    finish(optimizer, factor);
  }
  checks_.after_update();
}

void ReplicaUpdates::finish(const std::string& optimizer, double factor) {
  const auto& parameters = owned_by(optimizer);
  if (factor != 1) scale_gradients(parameters, factor);
  if (clip_norm_ > 0) norms_[optimizer] = clip_gradients(parameters, clip_norm_, update_);
  const Traced stepping("optimizer step");
  update_.step(optimizer, find(optimizer), parameters);
}

bool ReplicaUpdates::has_all_gradients(const std::string& optimizer) const {
  const auto partial = partial_.find(optimizer);
  return partial == partial_.end() || !partial->second;
}

std::optional<double> ReplicaUpdates::norm_of(const std::string& optimizer) const {
  const auto norm = norms_.find(optimizer);
  if (norm == norms_.end()) return std::nullopt;
  return norm->second;
}

}  // namespace troupe::detail
