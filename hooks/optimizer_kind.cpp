#include "troupe/hooks/optimizer_kind.h"

#include <c10/util/Type.h>
#include <torch/optim.h>

#include <map>
#include <mutex>
#include <tuple>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

namespace o = torch::optim;

// The fields of LibTorch's own. Adam and AdamW have the same ones.

template <class Options>
void visit_adam_options(Options& options, FieldVisitor& visit) {
  visit("lr", options.lr());
  visit("beta1", std::get<0>(options.betas()));
  visit("beta2", std::get<1>(options.betas()));
  visit("eps", options.eps());
  visit("weight_decay", options.weight_decay());
  visit("amsgrad", options.amsgrad());
}

template <class State>
void visit_adam_state(State& state, FieldVisitor& visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

void visit_sgd_options(o::SGDOptions& options, FieldVisitor& visit) {
  visit("lr", options.lr());
  visit("momentum", options.momentum());
  visit("dampening", options.dampening());
  visit("weight_decay", options.weight_decay());
  visit("nesterov", options.nesterov());
}

void visit_rmsprop_options(o::RMSpropOptions& options, FieldVisitor& visit) {
  visit("lr", options.lr());
  visit("alpha", options.alpha());
  visit("eps", options.eps());
  visit("weight_decay", options.weight_decay());
  visit("momentum", options.momentum());
  visit("centered", options.centered());
}

void visit_rmsprop_state(o::RMSpropParamState& state, FieldVisitor& visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

void visit_adagrad_options(o::AdagradOptions& options, FieldVisitor& visit) {
  visit("lr", options.lr());
  visit("lr_decay", options.lr_decay());
  visit("weight_decay", options.weight_decay());
  visit("initial_accumulator_value", options.initial_accumulator_value());
  visit("eps", options.eps());
}

void visit_adagrad_state(o::AdagradParamState& state, FieldVisitor& visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}

/// The kinds that were registered, by type.
struct Registry {
  std::mutex mutex;
  std::map<std::type_index, detail::OptimizerKind> kinds;
};

Registry& registry() {
  static Registry registry;
  return registry;
}

void register_libtorchs() {
  register_optimizer<o::Adam, o::AdamOptions, o::AdamParamState>(
      {"Adam", visit_adam_options<o::AdamOptions>, visit_adam_state<o::AdamParamState>,
       Stepping::by_element});
  register_optimizer<o::AdamW, o::AdamWOptions, o::AdamWParamState>(
      {"AdamW", visit_adam_options<o::AdamWOptions>, visit_adam_state<o::AdamWParamState>,
       Stepping::by_element});
  register_optimizer<o::SGD, o::SGDOptions, o::SGDParamState>(
      {"SGD", visit_sgd_options,
       [](o::SGDParamState& state, FieldVisitor& visit) {
         visit("momentum_buffer", state.momentum_buffer());
       },
       Stepping::by_element,
       [](const o::SGDOptions& options) {
         return options.momentum() == 0 && options.weight_decay() == 0;
       },
       [](o::SGDOptions& options) -> double& { return options.momentum(); }});
  // Adam's averages are divided by each other, and are not momentum of that kind; RMSprop's is.
  register_optimizer<o::RMSprop, o::RMSpropOptions, o::RMSpropParamState>(
      {"RMSprop", visit_rmsprop_options, visit_rmsprop_state, Stepping::by_element, nullptr,
       [](o::RMSpropOptions& options) -> double& { return options.momentum(); }});
  register_optimizer<o::Adagrad, o::AdagradOptions, o::AdagradParamState>(
      {"Adagrad", visit_adagrad_options, visit_adagrad_state, Stepping::by_element,
       [](const o::AdagradOptions& options) { return options.weight_decay() == 0; }});
}

}  // namespace

namespace detail {

void refuse_field_type(const std::string& kind, const char* what, const std::type_info& is,
                       const std::type_info& registered) {
  throw ConfigError(text("an optimiser", kind.empty() ? "" : " of kind \"" + kind + "\"", " has ",
                         what, " of type ", c10::demangle(is.name()), " where ",
                         c10::demangle(registered.name()), " was registered or asked for."),
                    "register it with the types that it uses: of its parameter groups' options, "
                    "and of the values "
                    "of its state().");
}

void register_kind(std::type_index optimizer, OptimizerKind kind) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& [type, other] : all.kinds) {
    if (other.name != kind.name || type == optimizer) continue;
    throw ConfigError(
        text("two kinds of optimisers are registered as \"", kind.name, "\", ",
             c10::demangle(type.name()), " and ", c10::demangle(optimizer.name()), "."),
        "give register_optimizer a name for each: checkpoints tell them apart by it.");
  }
  all.kinds.try_emplace(optimizer, std::move(kind));
}

}  // namespace detail

void keep_group_options(torch::optim::Optimizer& optimizer,
                        const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].has_options()) {
      optimizer.param_groups()[g].set_options(groups[g].options().clone());
    }
  }
}

void check_takes_sparse(const torch::optim::Optimizer& optimizer, const std::string& name,
                        const std::string& parameter) {
  namespace o = torch::optim;
  if (dynamic_cast<const o::Adam*>(&optimizer) == nullptr &&
      dynamic_cast<const o::AdamW*>(&optimizer) == nullptr &&
      dynamic_cast<const o::RMSprop*>(&optimizer) == nullptr)
    return;
  throw ConfigError(text("parameter \"", parameter, "\" has sparse gradients, which optimizer \"",
                         name, "\" does not take."),
                    "use SGD or Adagrad for it, or an embedding without sparse(true).");
}

const detail::OptimizerKind* find_kind(const torch::optim::Optimizer& optimizer) {
  static const bool libtorchs_are_known = (register_libtorchs(), true);
  (void)libtorchs_are_known;
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.kinds.find(typeid(optimizer));
  return found == all.kinds.end() ? nullptr : &found->second;
}

const detail::OptimizerKind& kind_of(const torch::optim::Optimizer& optimizer) {
  if (const detail::OptimizerKind* const kind = find_kind(optimizer)) return *kind;
  throw ConfigError(
      text("an optimiser is a ", c10::demangle(typeid(optimizer).name()),
           ", and no such kind is registered: it can neither be saved nor served."),
      "make it known by troupe::register_optimizer (docs/optimizers.md); use SGD, Adam, AdamW, "
      "RMSprop or Adagrad; or train without --model-dir and without parameter servers.");
}

}  // namespace troupe
