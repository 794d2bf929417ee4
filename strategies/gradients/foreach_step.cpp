#include "troupe/strategies/gradients/foreach_step.h"

#include <torch/optim.h>
#include <torch/types.h>

#include <cmath>
#include <set>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "troupe/hooks/optimizer_kind.h"

namespace troupe::detail {
namespace {

using torch::optim::Optimizer;
using Tensors = std::vector<at::Tensor>;

/// What of a group has a gradient.
struct Group {
  Tensors parameters, gradients;

  explicit Group(const torch::optim::OptimizerParamGroup& group) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      parameters.push_back(parameter);
      gradients.push_back(parameter.grad());
    }
  }
};

/// Whether each parameter is there once and its gradient is dense. One that is listed twice is to
/// be stepped twice, one step after the other.
bool is_plain(Optimizer& optimizer) {
  std::set<const void*> seen;
  for (auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.grad().defined() && parameter.grad().is_sparse()) return false;
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) return false;
    }
  }
  return true;
}

/// Each parameter's first momentum is its gradient.
Tensors momentum_of(Optimizer& optimizer, const Group& group, double momentum, double dampening) {
  using State = torch::optim::SGDParamState;
  Tensors all, earlier, gradients;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    auto& state = parameter_state<State>(optimizer, group.parameters[i]);
    if (state.momentum_buffer().defined()) {
      earlier.push_back(state.momentum_buffer());
      gradients.push_back(group.gradients[i]);
    } else {
      state.momentum_buffer(group.gradients[i].clone());
    }
    all.push_back(state.momentum_buffer());
  }
  if (earlier.empty()) return all;
  at::_foreach_mul_(earlier, momentum);
  at::_foreach_add_(earlier, gradients, 1 - dampening);
  return all;
}

void foreach_sgd(Optimizer& optimizer) {
  for (auto& each : optimizer.param_groups()) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(each.options());
    Group group(each);
    if (group.parameters.empty()) continue;
    if (options.weight_decay() != 0) {
      group.gradients = at::_foreach_add(group.gradients, group.parameters, options.weight_decay());
    }
    if (options.momentum() != 0) {
      Tensors momentum = momentum_of(optimizer, group, options.momentum(), options.dampening());
      group.gradients = options.nesterov()
                            ? at::_foreach_add(group.gradients, momentum, options.momentum())
                            : std::move(momentum);
    }
    at::_foreach_add_(group.parameters, group.gradients, -options.lr());
  }
}

template <class Options, class State>
void foreach_adam(Optimizer& optimizer, bool decouples_decay) {
  for (auto& each : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(each.options());
    const auto [beta1, beta2] = options.betas();
    Group group(each);
    if (group.parameters.empty()) continue;
    Tensors means, squares;
    std::vector<at::Scalar> corrections, sizes;  // by parameter, which may differ in their steps
    for (const at::Tensor& parameter : group.parameters) {
      auto& state = parameter_state<State>(optimizer, parameter);
      if (!state.exp_avg().defined()) {
        state.exp_avg(torch::zeros_like(parameter));
        state.exp_avg_sq(torch::zeros_like(parameter));
      }
      state.step(state.step() + 1);
      means.push_back(state.exp_avg());
      squares.push_back(state.exp_avg_sq());
      corrections.emplace_back(std::sqrt(1 - std::pow(beta2, state.step())));
      sizes.emplace_back(-options.lr() / (1 - std::pow(beta1, state.step())));
    }
    if (options.weight_decay() != 0) {
      if (decouples_decay) {
        at::_foreach_mul_(group.parameters, 1 - options.lr() * options.weight_decay());
      } else {
        group.gradients =
            at::_foreach_add(group.gradients, group.parameters, options.weight_decay());
      }
    }
    at::_foreach_mul_(means, beta1);
    at::_foreach_add_(means, group.gradients, 1 - beta1);
    at::_foreach_mul_(squares, beta2);
    at::_foreach_addcmul_(squares, group.gradients, group.gradients, 1 - beta2);
    const Tensors denominators = at::_foreach_sqrt(squares);
    at::_foreach_div_(denominators, corrections);
    at::_foreach_add_(denominators, options.eps());
    at::_foreach_addcdiv_(group.parameters, means, denominators, sizes);
  }
}

template <class Options>
bool uses_amsgrad(Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    if (static_cast<const Options&>(group.options()).amsgrad()) return true;
  }
  return false;
}

}  // namespace

bool step_by_foreach(Optimizer& optimizer) {
  namespace o = torch::optim;
  if (!is_plain(optimizer)) return false;
  const torch::NoGradGuard no_grad;
  // The very types: what is derived from them may step in another way.
  const auto is = [&](const std::type_info& type) { return typeid(optimizer) == type; };
  if (is(typeid(o::SGD))) {
    foreach_sgd(optimizer);
  } else if (is(typeid(o::Adam)) && !uses_amsgrad<o::AdamOptions>(optimizer)) {
    foreach_adam<o::AdamOptions, o::AdamParamState>(optimizer, false);
  } else if (is(typeid(o::AdamW)) && !uses_amsgrad<o::AdamWOptions>(optimizer)) {
    foreach_adam<o::AdamWOptions, o::AdamWParamState>(optimizer, true);
  } else {
    return false;
  }
  return true;
}

}  // namespace troupe::detail
