#include "servers/tensors/pushed_update.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "strategies/gradients/flat_gradients.h"

namespace troupe::detail {
namespace {

/// Every row once, in ascending order: what the rows of a push are.
void coalesce(const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined() || !gradient.is_sparse()) continue;
    // Whole rows are what servers know; anything else is pushed dense.
    gradient = gradient.sparse_dim() == 1 ? gradient.coalesce() : gradient.to_dense();
  }
}

}  // namespace

void PushedUpdate::reduce(const std::vector<NamedTensor>& parameters) {
  if (!is_alone()) {
    OverlappedSum::reduce(parameters);
    return;
  }
  const torch::NoGradGuard no_grad;
  coalesce(parameters);
  check_finite_gradients(parameters);
}

void PushedUpdate::step(const std::string& name, torch::optim::Optimizer& optimizer,
                        const std::vector<NamedTensor>& parameters) {
  if (is_first()) {
    shared_.exchange.push(name, optimizer);
    shared_.newest = &parameters;
  }
  if (is_alone() || shared_.arrive == SharedUpdate::Values::with_next_step) return;
  meet("the values of a push");
  if (!is_first()) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor into = parameters[i].second;
      into.copy_((*shared_.newest)[i].second);
    }
  }
  meet("the values of a push");
}

}  // namespace troupe::detail
