#include "strategies/finite_gradients.h"

#include <torch/types.h>

#include <cmath>

#include "core/error.h"

namespace troupe::detail {

void check_finite_gradients(const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    // Of a sparse gradient what is there: the rest is 0, and it has no sum of its own on the CPU.
    if (gradient.is_sparse()) gradient = gradient._values();
    // A sum is one cheap pass; only when it is not finite do the elements decide, since finite
    // numbers may overflow it.
    if (std::isfinite(gradient.sum().item<double>())) continue;
    if (gradient.isfinite().all().item<bool>()) continue;
    throw NonFiniteError("the gradient of parameter \"" + name + "\" is not finite.",
                         "lower --learning-rate, or look for a division by zero or a logarithm of "
                         "zero in the loss.");
  }
}

}  // namespace troupe::detail
