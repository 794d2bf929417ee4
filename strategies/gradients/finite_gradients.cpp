#include "strategies/gradients/finite_gradients.h"

#include <torch/types.h>

#include <cmath>
#include <cstddef>
#include <limits>

#include "core/error.h"
#include "strategies/gradients/gradient_values.h"

namespace troupe::detail {

namespace {

template <class Value>
bool are_finite(const at::Tensor& plain) {
  return are_within(plain.data_ptr<Value>(), static_cast<std::size_t>(plain.numel()),
                    std::numeric_limits<Value>::max());
}

bool is_finite(const at::Tensor& values) {
  if (values.is_cpu() && values.is_contiguous()) {
    if (values.scalar_type() == torch::kFloat32) return are_finite<float>(values);
    if (values.scalar_type() == torch::kFloat64) return are_finite<double>(values);
  }
  // A sum is one cheap pass; only when it is not finite do the elements decide, since finite
  // numbers may overflow it.
  return std::isfinite(values.sum().item<double>()) || values.isfinite().all().item<bool>();
}

}  // namespace

void check_finite_gradients(const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    // Of a sparse gradient what is there: the rest is 0, and it has no sum of its own on the CPU.
    if (gradient.is_sparse()) gradient = gradient._values();
    if (is_finite(gradient)) continue;
    throw NonFiniteError("the gradient of parameter \"" + name + "\" is not finite.",
                         "lower --learning-rate, or look for a division by zero or a logarithm of "
                         "zero in the loss.");
  }
}

}  // namespace troupe::detail
