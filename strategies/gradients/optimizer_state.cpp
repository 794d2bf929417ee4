#include "troupe/strategies/gradients/optimizer_state.h"

#include <torch/types.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/hooks/replica.h"

namespace troupe {
namespace {

using nlohmann::json;
using torch::optim::Optimizer;

CheckpointError does_not_fit(const std::string& what) {
  return CheckpointError("the saved optimiser does not fit: " + what + ".",
                         "resume with the hooks that made the checkpoint, or start in another "
                         "--model-dir.");
}

/// Into a description and a list of tensors.
class FieldWriter final : public FieldVisitor {
 public:
  /// `tensors` null: the fields are options. `prefix`: before the names of tensors.
  explicit FieldWriter(json& numbers, std::vector<NamedTensor>* tensors = nullptr,
                       std::string prefix = "")
      : numbers_(numbers), tensors_(tensors), prefix_(std::move(prefix)) {}

  void operator()(const char* name, bool& value) override { numbers_[name] = value; }
  void operator()(const char* name, std::int64_t& value) override { numbers_[name] = value; }
  /// JSON has no infinity and nothing that is not a number: those are texts.
  void operator()(const char* name, double& value) override {
    numbers_[name] = std::isfinite(value) ? json(value) : json(std::to_string(value));
  }
  void operator()(const char* name, at::Tensor& value) override {
    if (tensors_ == nullptr) {
      throw ConfigError(text("the options of an optimiser have a tensor, \"", name, "\"."),
                        "keep tensors in the state of parameters.");
    }
    if (value.defined()) tensors_->emplace_back(prefix_ + name, value);
  }

 private:
  json& numbers_;
  std::vector<NamedTensor>* tensors_;
  const std::string prefix_;
};

using TensorsByName = std::map<std::string, at::Tensor>;

template <class Number>
Number number_of(const json& saved) {
  if constexpr (std::is_same_v<Number, double>) {
    if (saved.is_string()) return std::strtod(saved.get_ref<const std::string&>().c_str(), nullptr);
  }
  return saved.get<Number>();
}

/// Out of a description: the state of a parameter.
class StateReader final : public FieldVisitor {
 public:
  using TakeTensor = std::function<void(const char* name, at::Tensor& value)>;
  StateReader(const json& saved, TakeTensor take_tensor)
      : saved_(saved), take_tensor_(std::move(take_tensor)) {}

  void operator()(const char* name, bool& value) override { take(name, value); }
  void operator()(const char* name, std::int64_t& value) override { take(name, value); }
  void operator()(const char* name, double& value) override { take(name, value); }
  void operator()(const char* name, at::Tensor& value) override { take_tensor_(name, value); }

 private:
  template <class Number>
  void take(const char* name, Number& value) const {
    value = number_of<Number>(saved_.at(name));
  }

  const json& saved_;
  const TakeTensor take_tensor_;
};

/// Out of a description: the options of a group. See restore_optimizer().
class OptionsReader final : public FieldVisitor {
 public:
  explicit OptionsReader(const json& group)
      : saved_(group.at("options")), made_(group.value("made", json::object())) {}

  /// Another way to step needs other state, which there is not.
  void operator()(const char* name, bool& value) override {
    const auto saved = number_of<bool>(saved_.at(name));
    if (saved != value) {
      log_warning("resuming with the checkpoint's ", name, " = ", saved, "; create_model made ",
                  value, ". In another --model-dir, --init-from starts with its weights and this.");
    }
    value = saved;
  }
  void operator()(const char* name, std::int64_t& value) override { take(name, value); }
  void operator()(const char* name, double& value) override { take(name, value); }
  void operator()(const char* /*name*/, at::Tensor& /*value*/) override {}

 private:
  template <class Number>
  void take(const char* name, Number& value) const {
    const auto saved = number_of<Number>(saved_.at(name));
    const bool is_new = made_.contains(name) && number_of<Number>(made_.at(name)) != value;
    if (is_new && saved != value) {
      log_info("resuming with create_model's ", name, " = ", value, "; the checkpoint has ", saved);
    }
    if (!is_new) value = saved;
  }

  const json& saved_;
  const json made_;
};

/// Makes the momentum of a parameter that had none: it begins at zero, as in a first step.
class MomentumMaker final : public FieldVisitor {
 public:
  explicit MomentumMaker(const at::Tensor& parameter) : parameter_(parameter) {}
  void operator()(const char* /*name*/, bool& /*value*/) override {}
  void operator()(const char* /*name*/, std::int64_t& /*value*/) override {}
  void operator()(const char* /*name*/, double& /*value*/) override {}
  void operator()(const char* name, at::Tensor& value) override {
    if (!value.defined() && std::string_view(name) == "momentum_buffer")
      value = at::zeros_like(parameter_);
  }

 private:
  const at::Tensor parameter_;
};

/// One tensor of a parameter's state.
void take_tensor(const TensorsByName& tensors, const NamedTensor& of, Stepping stepping,
                 const char* name, at::Tensor& value) {
  const auto& [parameter_name, parameter] = of;
  const auto found = tensors.find(text(parameter_name, "/", name));
  if (found == tensors.end()) return;
  const at::Tensor& held = found->second;
  const bool fits =
      held.sizes() == parameter.sizes() && held.scalar_type() == parameter.scalar_type();
  if (stepping == Stepping::by_element && !fits) {
    throw does_not_fit(text(found->first, " is ", held.scalar_type(), " ", held.sizes(), ", ",
                            parameter_name, " is ", parameter.scalar_type(), " ",
                            parameter.sizes()));
  }
  // A copy of its own: another replica is restored from the same tensors.
  value = held.to(parameter.device()).clone();
}

/// Names of parameters, asked for by the tensor.
class Names {
 public:
  explicit Names(const std::vector<NamedTensor>& parameters)
      : parameters_(parameters), places_(detail::place_of_tensor(parameters)) {}
  const std::string& of(const at::Tensor& tensor) const {
    const auto place = places_.find(tensor.unsafeGetTensorImpl());
    if (place == places_.end()) {
      throw ConfigError("an optimiser owns a tensor that is a parameter of no model.",
                        "make it from the parameters that create_model returns.");
    }
    return parameters_[place->second].first;
  }

 private:
  const std::vector<NamedTensor>& parameters_;
  detail::PlaceOfTensor places_;
};

/// What the optimiser would save now; also the shape that a saved description must have.
json group_names(Optimizer& optimizer, const Names& all) {
  json groups = json::array();
  for (auto& group : optimizer.param_groups()) {
    json names = json::array();
    for (const auto& tensor : group.params()) names.push_back(all.of(tensor));
    groups.push_back({{"parameters", names}});
  }
  return groups;
}

}  // namespace

json options_of(Optimizer& optimizer) {
  const detail::OptimizerKind& kind = kind_of(optimizer);
  json groups = json::array();
  for (auto& group : optimizer.param_groups()) {
    FieldWriter options(groups.emplace_back(json::object()));
    kind.options(group.options(), options);
  }
  return groups;
}

json describe_optimizer(Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                        std::vector<NamedTensor>& tensors) {
  const detail::OptimizerKind& kind = kind_of(optimizer);
  const Names names(parameters);
  json description;
  description["type"] = kind.name;
  description["groups"] = group_names(optimizer, names);
  json& counters = description["counters"] = json::object();
  const json options = options_of(optimizer);
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    auto& group = optimizer.param_groups()[g];
    description["groups"][g]["options"] = options[g];
    for (const auto& tensor : group.params()) {
      const auto state = optimizer.state().find(detail::state_key(tensor));
      if (state == optimizer.state().end()) continue;
      const std::string& name = names.of(tensor);
      if (counters.contains(name)) continue;  // listed twice
      FieldWriter fields(counters[name] = json::object(), &tensors, name + "/");
      kind.state(*state->second, fields);
    }
  }
  return description;
}

json describe_optimizers(Replica& replica, std::vector<NamedTensor>& tensors) {
  json descriptions = json::object();
  for (const std::string& name : replica.optimizer_names()) {
    std::vector<NamedTensor> own;
    descriptions[name] = describe_optimizer(replica.optimizer(name), replica.parameters(), own);
    for (auto& [of, tensor] : own) tensors.emplace_back(text(name, "/", of), tensor);
  }
  return descriptions;
}

void restore_optimizer(Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                       const json& description, const std::vector<NamedTensor>& tensors) {
  const detail::OptimizerKind& kind = kind_of(optimizer);
  if (description.at("type") != kind.name) {
    throw does_not_fit(text("it is ", description.at("type"), ", create_model made ", kind.name));
  }
  const TensorsByName by_name(tensors.begin(), tensors.end());
  const Names names(parameters);
  const json present = group_names(optimizer, names);
  if (present.size() != description.at("groups").size()) {
    throw does_not_fit("it has another number of parameter groups");
  }
  for (std::size_t g = 0; g < present.size(); ++g) {
    const json& saved = description.at("groups").at(g);
    if (saved.at("parameters") != present[g]["parameters"]) {
      throw does_not_fit(text("its parameters are ", saved.at("parameters"),
                              ", create_model's are ", present[g]["parameters"]));
    }
    auto& group = optimizer.param_groups()[g];
    OptionsReader options(saved);
    kind.options(group.options(), options);
    const bool has_momentum = options_of(optimizer)[g].value("momentum", 0.0) > 0;
    for (const auto& tensor : group.params()) {
      const std::string& name = names.of(tensor);
      const auto counters = description.at("counters").find(name);
      if (counters == description.at("counters").end()) continue;
      auto state = kind.make_state();
      StateReader fields(*counters, [&](const char* field, at::Tensor& value) {
        take_tensor(by_name, {name, tensor}, kind.stepping, field, value);
      });
      kind.state(*state, fields);
      MomentumMaker momentum(tensor);
      if (has_momentum) kind.state(*state, momentum);
      optimizer.state()[detail::state_key(tensor)] = std::move(state);
    }
  }
}

}  // namespace troupe
