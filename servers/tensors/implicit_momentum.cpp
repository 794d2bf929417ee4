#include "servers/tensors/implicit_momentum.h"

#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "core/log.h"

namespace troupe::detail {
namespace {

constexpr double kMuchMomentum = 0.8;

double momentum_of(torch::optim::OptimizerOptions& options) {
  if (const auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&options)) return sgd->momentum();
  const auto* rmsprop = dynamic_cast<torch::optim::RMSpropOptions*>(&options);
  return rmsprop == nullptr ? 0 : rmsprop->momentum();
}

}  // namespace

void warn_of_implicit_momentum(Replica& replica, int workers) {
  if (workers < 2) return;
  for (const auto& name : replica.optimizer_names()) {
    for (auto& group : replica.optimizer(name).param_groups()) {
      const double momentum = momentum_of(group.options());
      if (momentum < kMuchMomentum) continue;
      log_warning(
          "optimiser \"", name, "\" has momentum ", momentum, ", and the updates of ", workers,
          " asynchronous workers add to it: training may diverge. Lower the momentum or the "
          "learning rate, or use --staleness-bound 0");
      return;
    }
  }
}

}  // namespace troupe::detail
