#include "troupe/hooks/unused_parameters.h"

#include <algorithm>

#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe::detail {

void UnusedParameters::begin(const StepContext& context) {
  constexpr std::int64_t kSteps = 100;
  if (!first_) first_ = {context.step, context.epoch};
  const std::int64_t steps = context.step - first_->first;
  if (has_told_ || (steps < kSteps && context.epoch == first_->second)) return;
  has_told_ = true;
  warn(steps);
}

void UnusedParameters::after_backward(const std::string& optimizer) {
  if (has_told_) return;
  for (const auto& [name, parameters] : owned_) {
    if (name != optimizer) continue;
    std::vector<char>& used = used_[name];
    used.resize(parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& parameter = parameters[i].second;
      if (!parameter.requires_grad() || parameter.grad().defined()) used[i] = 1;
    }
  }
}

void UnusedParameters::warn(std::int64_t steps) const {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> unused;
  for (const auto& [name, parameters] : owned_) {
    const auto used = used_.find(name);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (used == used_.end() || used->second[i] == 0) unused.push_back(parameters[i].first);
    }
  }
  if (unused.empty()) return;
  const std::size_t all = unused.size();
  unused.resize(std::min(all, kMost));
  log_warning(
      all, all == 1 ? " parameter has" : " parameters have", " got no gradient in ", steps,
      " steps, and did not train: ", join(unused), all > kMost ? ", ..." : "",
      ". A forward function that does not use them, or a loss that was detached, does that");
}

}  // namespace troupe::detail
