#include "hooks/losses.h"

#include <torch/types.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "hooks/named.h"

namespace troupe {

LossSet::LossSet(std::initializer_list<std::pair<std::string, LossFunction>> losses) {
  for (const auto& [name, function] : losses) add(name, function);
}

LossSet& LossSet::add(std::string name, LossFunction function) {
  detail::check_new_name(losses_, name, "loss", "create_losses");
  if (!function) {
    throw ConfigError("loss \"" + name + "\" is an empty function.",
                      "give it a function of predictions and targets in create_losses.");
  }
  losses_.emplace_back(std::move(name), std::move(function));
  return *this;
}

const LossFunction& LossSet::at(const std::string& name) const {
  return detail::find_named(losses_, name, "loss", "create_losses");
}

void LossMeter::add(const std::vector<StepResult>& results, std::int64_t global_examples) {
  examples_ += global_examples;
  std::set<std::string> counted;
  for (const StepResult& result : results) {
    for (std::size_t i = 0; i < result.losses.size(); ++i) {
      const auto& [name, loss] = result.losses[i];
      const double weight = (i < result.weights.size() ? result.weights[i] : std::nullopt)
                                .value_or(static_cast<double>(global_examples));
      const at::Tensor weighted = loss.to(torch::kFloat64).reshape({}) * weight;
      const auto known = std::find_if(entries_.begin(), entries_.end(),
                                      [&, &key = name](const Entry& e) { return e.name == key; });
      const bool is_new = known == entries_.end();
      Entry& entry = is_new ? entries_.emplace_back(Entry{name, weighted}) : *known;
      if (!is_new) entry.total = entry.total + weighted.to(entry.total.device());
      if (counted.insert(name).second) entry.weight += weight;
    }
  }
}

void LossMeter::restore(const std::vector<LossSum>& sums, std::int64_t examples) {
  entries_.clear();
  for (const LossSum& sum : sums) {
    entries_.push_back({sum.name, torch::tensor(sum.total, torch::kFloat64), sum.weight});
  }
  examples_ = examples;
}

std::vector<LossSum> LossMeter::sums() const {
  std::vector<LossSum> sums;
  for (const Entry& entry : entries_) {
    sums.push_back({entry.name, entry.total.item<double>(), entry.weight});
  }
  return sums;
}

}  // namespace troupe
