#include "troupe/strategies/parameter_server/stale_step.h"

#include <algorithm>
#include <vector>

#include "troupe/hooks/optimizer_kind.h"

namespace troupe::detail {
namespace {

constexpr double kLeastMomentum = 1e-6;

void set_size(torch::optim::OptimizerOptions& options, double* momentum, StepSize size) {
  options.set_lr(size.rate);
  if (momentum != nullptr) *momentum = size.momentum;
}

}  // namespace

StepSize size_for_stale(StepSize given, std::int64_t missed) {
  if (missed <= 0) return given;  // bit for bit
  const double age = 1 + static_cast<double>(missed);
  const bool has_momentum = given.momentum > 0 && given.momentum < 1;
  const double without = has_momentum ? 1 - given.momentum : 1;
  StepSize size = given;
  if (has_momentum) size.momentum = std::max(kLeastMomentum, 1 - age * without);
  // The rate is the given one as long as the momentum could be lowered far enough.
  size.rate = has_momentum ? given.rate * std::min(1.0, (1 - size.momentum) / (age * without))
                           : given.rate / age;
  return size;
}

void step_stale(torch::optim::Optimizer& optimizer, std::int64_t missed) {
  const OptimizerKind& kind = kind_of(optimizer);
  std::vector<StepSize> given;  // by group
  for (auto& group : optimizer.param_groups()) {
    double* const momentum = kind.momentum(group.options());
    given.push_back({group.options().get_lr(), momentum == nullptr ? 0 : *momentum});
    set_size(group.options(), momentum, size_for_stale(given.back(), missed));
  }
  optimizer.step();
  auto size = given.begin();
  for (auto& group : optimizer.param_groups()) {
    set_size(group.options(), kind.momentum(group.options()), *size++);
  }
}

}  // namespace troupe::detail
