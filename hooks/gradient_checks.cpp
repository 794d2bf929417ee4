#include "troupe/hooks/gradient_checks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/tensors/value_sums.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kSteps = 2;  // a loop may run two step functions in turn

bool is_zero(const at::Tensor& gradient) {
  const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
  return values.numel() == 0 || values.count_nonzero().item<std::int64_t>() == 0;
}

/// What the functions registered on `parameter` make of a gradient.
at::Tensor hooked(const at::Tensor& parameter, const at::Tensor& gradient) {
  torch::autograd::variable_list values = {gradient};
  for (const auto& function : torch::autograd::impl::hooks(parameter)) values = (*function)(values);
  return values.front();
}

/// Whether f(a + b) = f(a) + f(b), tried with large values: what clips them shows.
bool is_linear(const at::Tensor& parameter) {
  const torch::NoGradGuard no_grad;
  const at::Tensor places =
      torch::arange(parameter.numel(), torch::kFloat64).view(parameter.sizes());
  const auto made = [&](double phase) {
    return (torch::sin(places * 0.7 + phase) * 1e3).to(parameter.options().requires_grad(false));
  };
  const at::Tensor a = made(1);
  const at::Tensor b = made(2);
  const at::Tensor apart = hooked(parameter, a.clone()) + hooked(parameter, b.clone());
  const at::Tensor together = hooked(parameter, a + b);
  if (apart.sizes() != together.sizes()) return false;
  const auto size = [](const at::Tensor& values) {
    return values.to(torch::kFloat64).norm().item<double>();
  };
  return size(apart - together) <= 1e-2 * (size(apart) + size(together));
}

}  // namespace

void GradientChecks::begin(const StepContext& context, int replicas) {
  if (context.phase != Phase::train) {
    looks_ = false;
    return;
  }
  if (context.part == 0) ++steps_;
  looks_ = steps_ <= kSteps;
  splits_ = replicas > 1 || context.parts > 1;
  if (looks_) remember();
}

void GradientChecks::remember() {
  seen_.clear();
  for (const auto& [optimizer, parameters] : owned_) {
    for (const auto& [name, parameter] : parameters) {
      if (parameter.grad().defined())
        seen_[parameter.unsafeGetTensorImpl()] = value_sum(parameter.grad()).bits;
    }
  }
}

/// One that was set to zero, as before a backward pass, has no effect anywhere.
bool GradientChecks::is_changed(const at::Tensor& parameter) const {
  if (!parameter.grad().defined()) return false;
  const auto found = seen_.find(parameter.unsafeGetTensorImpl());
  const bool is_same = found != seen_.end() && found->second == value_sum(parameter.grad()).bits;
  return !is_same && !is_zero(parameter.grad());
}

void GradientChecks::before_update(const std::vector<NamedTensor>& parameters) {
  if (!looks_) return;
  for (const auto& [name, parameter] : parameters) {
    if (is_changed(parameter)) {
      throw ConfigError(
          text("train_step made a gradient of \"", name,
               "\" itself before apply_gradients, which makes the step's and takes no other."),
          "leave out loss.backward(), and take gradients of inputs by torch::autograd::grad; limit "
          "gradients with --clip-norm, or give your own to replica.apply_gradients(gradients).");
    }
    if (!splits_ || torch::autograd::impl::hooks(parameter).empty() || is_linear(parameter))
      continue;
    throw ConfigError(
        text("a function is registered on parameter \"", name,
             "\" (register_hook), and what it makes of a sum of gradients is not the sum of what "
             "it makes of each: here it sees one replica's part of the step's gradient."),
        "limit gradients with --clip-norm, which sees the sum; a factor or a mask may stay.");
  }
}

void GradientChecks::after_call() {
  if (!looks_) return;
  for (const auto& [optimizer, parameters] : owned_) {
    for (const auto& [name, parameter] : parameters) {
      if (!is_changed(parameter)) continue;
      throw ConfigError(
          text("train_step changed the gradient of \"", name,
               "\" after apply_gradients, when optimizer \"", optimizer,
               "\" had taken its step: it has no effect."),
          "limit gradients with --clip-norm, or make them by torch::autograd::grad and give them "
          "to replica.apply_gradients(gradients).");
    }
  }
}

}  // namespace troupe::detail
