#include "strategies/gradients/optimizer_state.h"

#include <torch/optim.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace troupe {
namespace {

using detail::state_key;
using nlohmann::json;
using torch::optim::Optimizer;

// The fields of each kind of optimiser. A visitor is called with each field's name and a reference.

// Of Adam and AdamW, which have the same; those of the others are more special.
template <class O, class V>
void each_option(O& o, V&& visit) {
  visit("lr", o.lr());
  visit("beta1", std::get<0>(o.betas()));
  visit("beta2", std::get<1>(o.betas()));
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("amsgrad", o.amsgrad());
}
template <class S, class V>
void each_state(S& s, V&& visit) {
  visit("step", s.step());
  visit("exp_avg", s.exp_avg());
  visit("exp_avg_sq", s.exp_avg_sq());
  visit("max_exp_avg_sq", s.max_exp_avg_sq());
}

template <class V>
void each_option(torch::optim::SGDOptions& o, V&& visit) {
  visit("lr", o.lr());
  visit("momentum", o.momentum());
  visit("dampening", o.dampening());
  visit("weight_decay", o.weight_decay());
  visit("nesterov", o.nesterov());
}
template <class V>
void each_state(torch::optim::SGDParamState& s, V&& visit) {
  visit("momentum_buffer", s.momentum_buffer());
}

template <class V>
void each_option(torch::optim::RMSpropOptions& o, V&& visit) {
  visit("lr", o.lr());
  visit("alpha", o.alpha());
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("momentum", o.momentum());
  visit("centered", o.centered());
}
template <class V>
void each_state(torch::optim::RMSpropParamState& s, V&& visit) {
  visit("step", s.step());
  visit("square_avg", s.square_avg());
  visit("momentum_buffer", s.momentum_buffer());
  visit("grad_avg", s.grad_avg());
}

template <class V>
void each_option(torch::optim::AdagradOptions& o, V&& visit) {
  visit("lr", o.lr());
  visit("lr_decay", o.lr_decay());
  visit("weight_decay", o.weight_decay());
  visit("initial_accumulator_value", o.initial_accumulator_value());
  visit("eps", o.eps());
}
template <class V>
void each_state(torch::optim::AdagradParamState& s, V&& visit) {
  visit("step", s.step());
  visit("sum", s.sum());
}

/// Calls `use` with tags of the optimiser's options and state types.
template <class Options, class State>
struct Kind {
  using OptionsType = Options;
  using StateType = State;
  const char* name;
};

template <class F>
void with_kind(Optimizer& optimizer, F&& use) {
  namespace o = torch::optim;
  if (dynamic_cast<o::SGD*>(&optimizer) != nullptr) {
    use(Kind<o::SGDOptions, o::SGDParamState>{"SGD"});
  } else if (dynamic_cast<o::AdamW*>(&optimizer) != nullptr) {
    use(Kind<o::AdamWOptions, o::AdamWParamState>{"AdamW"});
  } else if (dynamic_cast<o::Adam*>(&optimizer) != nullptr) {
    use(Kind<o::AdamOptions, o::AdamParamState>{"Adam"});
  } else if (dynamic_cast<o::RMSprop*>(&optimizer) != nullptr) {
    use(Kind<o::RMSpropOptions, o::RMSpropParamState>{"RMSprop"});
  } else if (dynamic_cast<o::Adagrad*>(&optimizer) != nullptr) {
    use(Kind<o::AdagradOptions, o::AdagradParamState>{"Adagrad"});
  } else {
    throw ConfigError("an optimiser is of a kind whose state Troupe does not know how to save.",
                      "use SGD, Adam, AdamW, RMSprop or Adagrad, or train without --model-dir.");
  }
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

CheckpointError does_not_fit(const std::string& what) {
  return CheckpointError("the saved optimiser does not fit: " + what + ".",
                         "resume with the hooks that made the checkpoint, or start in another "
                         "--model-dir.");
}

}  // namespace

json describe_optimizer(Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                        std::vector<NamedTensor>& tensors) {
  json description;
  const Names names(parameters);
  with_kind(optimizer, [&](auto kind) {
    using Options = typename decltype(kind)::OptionsType;
    using State = typename decltype(kind)::StateType;
    description["type"] = kind.name;
    description["groups"] = group_names(optimizer, names);
    description["counters"] = json::object();
    for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
      auto& group = optimizer.param_groups()[g];
      json& options = description["groups"][g]["options"];
      each_option(static_cast<Options&>(group.options()),
                  [&](const char* field, auto& value) { options[field] = value; });
      for (const auto& tensor : group.params()) {
        const auto state = optimizer.state().find(state_key(tensor));
        if (state == optimizer.state().end()) continue;
        const std::string& name = names.of(tensor);
        description["counters"][name] = json::object();
        each_state(static_cast<State&>(*state->second), [&](const char* field, auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
            if (value.defined()) tensors.emplace_back(name + "/" + field, value);
          } else {
            description["counters"][name][field] = value;
          }
        });
      }
    }
  });
  return description;
}

void restore_optimizer(Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                       const json& description, const std::vector<NamedTensor>& tensors) {
  std::map<std::string, at::Tensor> by_name(tensors.begin(), tensors.end());
  const Names names(parameters);
  with_kind(optimizer, [&](auto kind) {
    using Options = typename decltype(kind)::OptionsType;
    using State = typename decltype(kind)::StateType;
    if (description.at("type") != kind.name) {
      throw does_not_fit(text("it is ", description.at("type"), ", create_model made ", kind.name));
    }
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
      each_option(static_cast<Options&>(group.options()), [&](const char* field, auto& value) {
        const auto restored = saved.at("options").at(field).get<std::decay_t<decltype(value)>>();
        if (restored != value) {
          log_warning("resuming with the checkpoint's ", field, " = ", restored,
                      "; create_model asked for ", value);
        }
        value = restored;
      });
      for (const auto& tensor : group.params()) {
        const std::string& name = names.of(tensor);
        const auto counters = description.at("counters").find(name);
        if (counters == description.at("counters").end()) continue;
        auto state = std::make_unique<State>();
        each_state(*state, [&](const char* field, auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
            const auto found = by_name.find(name + "/" + field);
            if (found == by_name.end()) return;
            const at::Tensor& held = found->second;
            if (held.sizes() != tensor.sizes() || held.scalar_type() != tensor.scalar_type()) {
              throw does_not_fit(text(found->first, " is ", held.scalar_type(), " ", held.sizes(),
                                      ", ", name, " is ", tensor.scalar_type(), " ",
                                      tensor.sizes()));
            }
            // A copy of its own: another replica is restored from the same tensors.
            value = found->second.to(tensor.device()).clone();
          } else {
            value = counters->at(field).template get<std::decay_t<decltype(value)>>();
          }
        });
        optimizer.state()[state_key(tensor)] = std::move(state);
      }
    }
  });
}

}  // namespace troupe
