#include "troupe/hooks/replica.h"

#include <c10/util/Type.h>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "troupe/core/check.h"
#include "troupe/core/log.h"
#include "troupe/hooks/named.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/replica_updates.h"
#include "troupe/hooks/step_checks.h"
#include "troupe/hooks/step_weights.h"
#include "troupe/hooks/tensors/autocast.h"
#include "troupe/hooks/tensors/gathered_rows.h"
#include "troupe/hooks/tensors/own_memory.h"

namespace troupe {
namespace {

class ToDevice final : public FieldVisitor {
 public:
  explicit ToDevice(c10::Device device) : device_(device) {}
  void operator()(const char* /*name*/, bool& /*value*/) override {}
  void operator()(const char* /*name*/, std::int64_t& /*value*/) override {}
  void operator()(const char* /*name*/, double& /*value*/) override {}
  void operator()(const char* /*name*/, at::Tensor& value) override {
    if (value.defined()) value = value.to(device_);
  }

 private:
  c10::Device device_;
};

/// What an optimiser has made in its constructor, before the model went to its device: Adagrad's
/// sums.
void move_state(torch::optim::Optimizer& optimizer, c10::Device device) {
  const detail::OptimizerKind* const kind = find_kind(optimizer);
  if (kind == nullptr) return;
  ToDevice visitor(device);
  for (const auto& [parameter, state] : optimizer.state()) kind->state(*state, visitor);
}

/// Those of `all` that the optimiser owns, each once, though its groups may list one twice.
/// Throws: ConfigError if it owns none, or another tensor.
std::vector<NamedTensor> parameters_of(const std::string& name, torch::optim::Optimizer& optimizer,
                                       const std::vector<NamedTensor>& all, bool warns) {
  const detail::PlaceOfTensor places = detail::place_of_tensor(all);
  std::vector<NamedTensor> owned;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& tensor : group.params()) {
      const auto place = places.find(tensor.unsafeGetTensorImpl());
      if (place == places.end()) {
        throw ConfigError(text("optimizer \"", name, "\" owns a tensor of shape ", tensor.sizes(),
                               " that is a parameter of no model."),
                          "make the optimiser from the parameters of the models that create_model "
                          "returns.");
      }
      owned.push_back(all[place->second]);
    }
  }
  if (dynamic_cast<const torch::optim::LBFGS*>(&optimizer) != nullptr) {
    throw ConfigError("optimizer \"" + name +
                          "\" is an LBFGS, which computes the loss several "
                          "times in one step: no step of Troupe's can.",
                      "use SGD, Adam, AdamW, RMSprop or Adagrad.");
  }
  if (owned.empty()) {
    throw ConfigError("optimizer \"" + name + "\" owns no parameter: it would train nothing.",
                      "make it from the parameters of a model, after its layers are registered.");
  }
  std::vector<NamedTensor> once = detail::each_once(owned);
  if (once.size() < owned.size() && warns) {
    log_warning("optimizer \"", name, "\" lists ", owned.size() - once.size(),
                " of its parameters more than once, as parameters() does with a tensor that two "
                "modules share: LibTorch steps such a parameter each time that it is listed");
  }
  return once;
}

/// Whether all of the model is in evaluation mode, and some of it is trained.
bool is_left_in_eval(torch::nn::Module& model, const detail::PlaceOfTensor& owned) {
  for (const auto& module : model.modules()) {
    if (module->is_training()) return false;
  }
  const auto parameters = model.parameters();
  return std::any_of(parameters.begin(), parameters.end(), [&](const at::Tensor& parameter) {
    return owned.count(parameter.unsafeGetTensorImpl()) > 0;
  });
}

/// Adds LibTorch's named tensors of a model, by the names that they have among those of all models.
template <class Items>
void append(std::vector<NamedTensor>& all, const std::string& model, const Items& items) {
  const std::string prefix = model == "model" ? "" : model + ".";
  for (const auto& item : items) all.emplace_back(prefix + item.key(), item.value());
}

/// Parameters and buffers of the models, without those that are frozen and in evaluation mode.
std::vector<NamedTensor> changing_tensors(const Trainable& trainable) {
  std::vector<NamedTensor> all;
  for (const auto& [name, model] : trainable.models) {
    const auto parameters = model->parameters();
    const bool is_frozen =
        !model->is_training() &&
        std::none_of(parameters.begin(), parameters.end(),
                     [](const at::Tensor& parameter) { return parameter.requires_grad(); });
    if (is_frozen) continue;
    append(all, name, model->named_parameters());
    append(all, name, model->named_buffers());
  }
  return all;
}

/// Hooks' own buffers are found by their plain names, as a model's tensors are.
void check_names(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (names.insert(name).second) continue;
    throw ConfigError(text("create_model added a buffer \"", name,
                           "\", which is the name of a model's parameter or buffer."),
                      "give add_buffer another name.");
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
  for (auto& [name, optimizer] : trainable_.optimizers) move_state(*optimizer, place_.device);
  for (auto& [name, buffer] :
       trainable_.buffers) {  // a copy: replicas may be given the same tensor
    buffer = torch::empty_like(buffer, place_.device).copy_(buffer.detach());
  }
  for (auto& [name, tensor] : trainable_.own) tensor = tensor.detach().clone();
  check_names(detail::state_of(*this));
  const std::vector<NamedTensor> all = parameters();
  const bool warns = place_.index == 0;
  detail::PlaceOfTensor places;
  for (auto& [name, optimizer] : trainable_.optimizers) {
    owned_.emplace_back(name, parameters_of(name, *optimizer, all, warns));
    places.merge(detail::place_of_tensor(owned_.back().second));
  }
  for (auto& [name, model] : trainable_.models) {
    if (!is_left_in_eval(*model, places)) continue;
    if (warns) {
      log_warning("create_model returned model \"", name,
                  "\" in evaluation mode, and an optimiser owns parameters of it: it is trained in "
                  "training mode. A submodule that is left in evaluation mode stays so");
    }
    model->train();
  }
  std::vector<NamedTensor> unowned;
  std::copy_if(all.begin(), all.end(), std::back_inserter(unowned), [&](const NamedTensor& each) {
    return places.count(each.second.unsafeGetTensorImpl()) == 0;
  });
  checks_ = std::make_unique<detail::StepChecks>(owned_, all, std::move(unowned), warns);
  weights_ = std::make_unique<detail::StepWeights>(update_, place_.device);
  updates_ = std::make_unique<detail::ReplicaUpdates>(owned_, trainable_, update_, *checks_,
                                                      *weights_, place_.device, options_.clip_norm);
  memory_ = std::make_unique<detail::OwnMemory>(changing_tensors(trainable_));
}

Replica::~Replica() = default;

namespace detail {

torch::nn::Module& find_model(const Trainable& trainable, const std::string& name) {
  return *find_named(trainable.models, name, "model", "create_model");
}

void refuse_type(const Trainable& trainable, const std::string& model,
                 const std::type_info& wanted) {
  const auto& made = find_model(trainable, model);
  const std::string type = c10::demangle(typeid(made).name());
  throw ConfigError(
      text("model \"", model, "\" is a ", type, ", not a ", c10::demangle(wanted.name()), "."),
      text("ask for the type that create_model made: replica.model<", type, ">(",
           model == "model" ? "" : "\"" + model + "\"", ")."));
}

std::vector<NamedTensor> state_of(const Replica& replica) {
  std::vector<NamedTensor> all = replica.parameters();
  const std::vector<NamedTensor> buffers = replica.buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

}  // namespace detail

torch::optim::Optimizer& Replica::optimizer(const std::string& name) {
  return *detail::find_named(trainable_.optimizers, name, "optimizer", "create_model");
}

at::Tensor Replica::buffer(const std::string& name) {
  std::vector<NamedTensor> all = trainable_.buffers;
  all.insert(all.end(), trainable_.own.begin(), trainable_.own.end());
  return detail::find_named(all, name, "buffer", "create_model");
}

MetricSum& Replica::metric(const std::string& name) {
  MetricSet& own = metrics_[static_cast<std::size_t>(context_.phase)];
  return context_.padding ? discarded_.at(name) : own.at(name);
}

at::Tensor Replica::global_mean(const at::Tensor& per_example) const {
  if (!per_example.defined() || per_example.dim() != 1 ||
      per_example.size(0) != context_.examples) {
    throw ConfigError(
        text("global_mean was given a loss of shape ", detail::shape_text(per_example), " for ",
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
  if (!losses.defined() || !weights.defined() || losses.dim() == 0 ||
      losses.sizes() != weights.sizes()) {
    throw ConfigError(text("global_mean was given losses of shape ", detail::shape_text(losses),
                           " and weights of shape ", detail::shape_text(weights), "."),
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
    throw ConfigError(text("local_loss was given a loss of shape ", detail::shape_text(loss), "."),
                      "pass a scalar; for one loss per example, [B], there is global_mean.");
  }
  checks_->declare_local(loss);
  return loss;
}

Replica::Gathered Replica::all_gather(const at::Tensor& own) {
  if (context_.phase == Phase::predict || context_.parts > 1) {
    const bool predicts = context_.phase == Phase::predict;
    throw ConfigError(text("all_gather needs all rows of a step, and ",
                           predicts ? "predict_step has those of one worker."
                                    : "--accumulate computes them in parts, one after the other."),
                      predicts ? "predict from an example alone." : "leave out --accumulate.");
  }
  checks_->declare_gathered();
  const auto sum = [this](const at::Tensor& flat, const std::string& what) {
    detail::ReplicaDriver(*this).sum_over_replicas(flat, what);
  };
  const auto [rows, begin] =
      detail::gather_rows(own, {place_.index, place_.count, !context_.padding}, sum);
  return {rows, begin};
}

void Replica::not_trained(const at::Tensor& leaf) { checks_->leaves().declare_not_trained(leaf); }

void Replica::apply_gradients(const at::Tensor& loss, const std::string& optimizer) {
  updates_->make({{loss, {optimizer}, {}}});
}

void Replica::apply_gradients(const at::Tensor& loss,
                              std::initializer_list<std::string> optimizers) {
  updates_->make({{loss, optimizers, {}}});
}

void Replica::apply_gradients(const std::vector<at::Tensor>& gradients,
                              const std::string& optimizer) {
  updates_->make({{at::Tensor(), {optimizer}, gradients}});
}

void Replica::apply_gradients(const std::vector<std::pair<at::Tensor, std::string>>& losses) {
  std::vector<detail::ReplicaUpdates::Pass> passes;
  for (const auto& [loss, optimizer] : losses) passes.push_back({loss, {optimizer}, {}});
  updates_->make(passes);
}

std::optional<double> Replica::gradient_norm(const std::string& optimizer) const {
  return updates_->norm_of(optimizer);
}

std::vector<NamedTensor> Replica::parameters() const {
  std::vector<NamedTensor> all;
  for (const auto& [name, model] : trainable_.models) append(all, name, model->named_parameters());
  return detail::each_once(all);
}

std::vector<NamedTensor> Replica::parameters(const std::string& optimizer) const {
  return updates_->owned_by(optimizer);
}

std::vector<NamedTensor> Replica::buffers() const {
  std::vector<NamedTensor> all;
  for (const auto& [name, model] : trainable_.models) append(all, name, model->named_buffers());
  all.insert(all.end(), trainable_.buffers.begin(), trainable_.buffers.end());
  return detail::each_once(all);
}

std::vector<std::string> Replica::optimizer_names() const {
  std::vector<std::string> names;
  for (const auto& [name, optimizer] : trainable_.optimizers) names.push_back(name);
  return names;
}

}  // namespace troupe
