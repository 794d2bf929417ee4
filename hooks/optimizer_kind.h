// OptimizerKind: what Troupe knows of a kind of optimiser beside LibTorch's interface, so that it
// can be saved, resumed and served. LibTorch's SGD, Adam, AdamW, RMSprop and Adagrad are known; an
// optimiser of your own becomes known by one registration, before the first model is made:
//
//   inline const bool muon_is_known = troupe::register_optimizer<Muon, MuonOptions, MuonState>(
//       {"Muon",
//        [](MuonOptions& o, troupe::FieldVisitor& visit) { visit("lr", o.lr()); ... },
//        [](MuonState& s, troupe::FieldVisitor& visit) { visit("momentum", s.momentum()); }});
//
// What its next step depends on must be a field: an option of a parameter group, or in the state of
// a parameter, which parameter_state() finds. Thread rule: register before threads start; lookups
// may come from any thread.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

namespace troupe {

/// Is called with the name of each field and a reference to it, always in the same order. The names
/// are those in checkpoints, without "/". Tensors are fields of a state only; one that is undefined
/// is not saved.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void operator()(const char* name, bool& value) = 0;
  virtual void operator()(const char* name, std::int64_t& value) = 0;
  virtual void operator()(const char* name, double& value) = 0;
  virtual void operator()(const char* name, at::Tensor& value) = 0;
};

/// How a step changes parameters, which decides what servers may do with them.
enum class Stepping {
  /// Parameters by themselves. A server holds each of them whole. State may have any shape.
  whole,
  /// Element by element: the new value of an element depends on its own value, gradient and state
  /// alone, and all tensors of a state have the parameter's shape. Servers divide parameters by
  /// rows.
  by_element
};

/// `Options` is the type of the parameter groups' options, `State` that of a parameter's state.
template <class Options, class State>
struct OptimizerFields {
  std::string name;  // in checkpoints and messages
  std::function<void(Options&, FieldVisitor&)> options;
  std::function<void(State&, FieldVisitor&)> state;
  Stepping stepping = Stepping::whole;
  /// Whether a step with a sparse gradient changes no other rows than the gradient's, so that only
  /// those travel. Null: it may.
  std::function<bool(const Options&)> changes_given_rows_only = nullptr;
  /// The coefficient of heavy-ball momentum, which asynchronous servers lower for late gradients
  /// (docs/parameter_servers.md). Null: there is none of this kind.
  std::function<double&(Options&)> momentum = nullptr;
};

namespace detail {

/// OptimizerFields of any options and state.
struct OptimizerKind {
  std::string name;
  std::function<void(torch::optim::OptimizerOptions&, FieldVisitor&)> options;
  std::function<void(torch::optim::OptimizerParamState&, FieldVisitor&)> state;
  std::function<std::unique_ptr<torch::optim::OptimizerParamState>()> make_state;
  Stepping stepping = Stepping::whole;
  std::function<bool(torch::optim::OptimizerOptions&)> changes_given_rows_only;
  std::function<double*(torch::optim::OptimizerOptions&)> momentum;  // null result: it has none
};

using StateMap = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

/// LibTorch's key of a parameter's state: its address, before 2.0 as the text a stream makes of it.
template <class Key = StateMap::key_type>
[[nodiscard]] Key state_key(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream address;
    address << static_cast<const void*>(parameter.unsafeGetTensorImpl());
    return address.str();
  } else {
    return static_cast<Key>(parameter.unsafeGetTensorImpl());
  }
}

/// Throws: ConfigError saying that `kind` was registered with another type of `what`.
[[noreturn]] void refuse_field_type(const std::string& kind, const char* what,
                                    const std::type_info& is, const std::type_info& registered);

template <class To, class From>
To& field_holder(From& from, const std::string& kind, const char* what) {
  if (auto* const to = dynamic_cast<To*>(&from)) return *to;
  refuse_field_type(kind, what, typeid(from), typeid(To));
}

/// Of optimisers of exactly this type; a second registration of a type changes nothing.
/// Throws: ConfigError if another type has the kind's name.
void register_kind(std::type_index optimizer, OptimizerKind kind);

}  // namespace detail

/// The state of a parameter of `optimizer`, a State() at first. Whatever release of LibTorch it is,
/// it lies in optimizer.state() where LibTorch's optimisers have theirs.
template <class State>
[[nodiscard]] State& parameter_state(torch::optim::Optimizer& optimizer,
                                     const at::Tensor& parameter) {
  auto& state = optimizer.state()[detail::state_key(parameter)];
  if (!state) state = std::make_unique<State>();
  return detail::field_holder<State>(*state, "", "state");
}

/// For the constructor of an optimiser of your own: gives each group the options that `groups` said
/// for it. From 2.12 on LibTorch's constructor replaces those of a type that it does not know by
/// the optimiser's defaults, and says nothing (pytorch pull request 161825).
void keep_group_options(torch::optim::Optimizer& optimizer,
                        const std::vector<torch::optim::OptimizerParamGroup>& groups);

/// The kind of an optimiser: of its type itself, since what is derived from it may step otherwise.
/// Null: none was registered.
[[nodiscard]] const detail::OptimizerKind* find_kind(const torch::optim::Optimizer& optimizer);
/// Throws: ConfigError if `optimizer`, which is named `name`, does not take sparse gradients, which
/// the parameter has. Alone LibTorch refuses them; summed over replicas they are dense.
void check_takes_sparse(const torch::optim::Optimizer& optimizer, const std::string& name,
                        const std::string& parameter);

/// Throws: ConfigError if none was registered.
[[nodiscard]] const detail::OptimizerKind& kind_of(const torch::optim::Optimizer& optimizer);

/// Makes `O` a kind that can be saved, resumed and served. Returns true, for a variable at
/// namespace scope to be initialised by.
template <class O, class Options, class State>
bool register_optimizer(OptimizerFields<Options, State> fields) {
  detail::OptimizerKind kind;
  kind.name = fields.name;
  kind.stepping = fields.stepping;
  kind.make_state = [] { return std::make_unique<State>(); };
  const auto own = std::make_shared<const OptimizerFields<Options, State>>(std::move(fields));
  const auto options_of = [own](torch::optim::OptimizerOptions& options) -> Options& {
    return detail::field_holder<Options>(options, own->name, "options");
  };
  kind.options = [own, options_of](torch::optim::OptimizerOptions& options, FieldVisitor& visit) {
    own->options(options_of(options), visit);
  };
  kind.state = [own](torch::optim::OptimizerParamState& state, FieldVisitor& visit) {
    own->state(detail::field_holder<State>(state, own->name, "state"), visit);
  };
  kind.changes_given_rows_only = [own, options_of](torch::optim::OptimizerOptions& options) {
    return own->changes_given_rows_only && own->changes_given_rows_only(options_of(options));
  };
  kind.momentum = [own, options_of](torch::optim::OptimizerOptions& options) -> double* {
    return own->momentum ? &own->momentum(options_of(options)) : nullptr;
  };
  detail::register_kind(typeid(O), std::move(kind));
  return true;
}

}  // namespace troupe
