#include "troupe/strategies/gradients/optimizer_state.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"

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

template <class Number>
Number number_of(const json& saved) {
  if constexpr (std::is_same_v<Number, double>) {
    if (saved.is_string()) return std::strtod(saved.get_ref<const std::string&>().c_str(), nullptr);
  }
  return saved.get<Number>();
}

/// Out of a description: options, where the log says which of the present ones differ.
class OptionReader final : public FieldVisitor {
 public:
  explicit OptionReader(const json& saved) : saved_(saved) {}

  void operator()(const char* name, bool& value) override { take(name, value); }
  void operator()(const char* name, std::int64_t& value) override { take(name, value); }
  void operator()(const char* name, double& value) override { take(name, value); }
  void operator()(const char* /*name*/, at::Tensor& /*value*/) override {}

 private:
  template <class Number>
  void take(const char* name, Number& value) const {
    const auto restored = number_of<Number>(saved_.at(name));
    if (restored != value) {
      log_warning("resuming with the checkpoint's ", name, " = ", restored,
                  "; create_model asked for ", value);
    }
    value = restored;
  }

  const json& saved_;
};

using TensorsByName = std::map<std::string, at::Tensor>;

/// Out of a description and its tensors: the state of one parameter.
class StateReader final : public FieldVisitor {
 public:
  StateReader(const json& counters, const TensorsByName& tensors, NamedTensor parameter,
              Stepping stepping)
      : counters_(counters),
        tensors_(tensors),
        parameter_(std::move(parameter)),
        stepping_(stepping) {}

  void operator()(const char* name, bool& value) override { take(name, value); }
  void operator()(const char* name, std::int64_t& value) override { take(name, value); }
  void operator()(const char* name, double& value) override { take(name, value); }
  void operator()(const char* name, at::Tensor& value) override {
    const auto& [parameter_name, parameter] = parameter_;
    const auto found = tensors_.find(text(parameter_name, "/", name));
    if (found == tensors_.end()) return;
    const at::Tensor& held = found->second;
    const bool fits =
        held.sizes() == parameter.sizes() && held.scalar_type() == parameter.scalar_type();
    if (stepping_ == Stepping::by_element && !fits) {
      throw does_not_fit(text(found->first, " is ", held.scalar_type(), " ", held.sizes(), ", ",
                              parameter_name, " is ", parameter.scalar_type(), " ",
                              parameter.sizes()));
    }
    // A copy of its own: another replica is restored from the same tensors.
    value = held.to(parameter.device()).clone();
  }

 private:
  template <class Number>
  void take(const char* name, Number& value) const {
    value = number_of<Number>(counters_.at(name));
  }

  const json& counters_;
  const TensorsByName& tensors_;
  const NamedTensor parameter_;
  const Stepping stepping_;
};

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

json describe_optimizer(Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                        std::vector<NamedTensor>& tensors) {
  const OptimizerKind& kind = kind_of(optimizer);
  const Names names(parameters);
  json description;
  description["type"] = kind.name;
  description["groups"] = group_names(optimizer, names);
  json& counters = description["counters"] = json::object();
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    auto& group = optimizer.param_groups()[g];
    FieldWriter options(description["groups"][g]["options"] = json::object());
    kind.options(group.options(), options);
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

void restore_optimizer(Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                       const json& description, const std::vector<NamedTensor>& tensors) {
  const OptimizerKind& kind = kind_of(optimizer);
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
    OptionReader options(saved.at("options"));
    kind.options(group.options(), options);
    for (const auto& tensor : group.params()) {
      const std::string& name = names.of(tensor);
      const auto counters = description.at("counters").find(name);
      if (counters == description.at("counters").end()) continue;
      auto state = kind.make_state();
      StateReader fields(*counters, by_name, {name, tensor}, kind.stepping);
      kind.state(*state, fields);
      optimizer.state()[detail::state_key(tensor)] = std::move(state);
    }
  }
}

}  // namespace troupe
