#include "hooks/loss_meter.h"

#include <torch/types.h>

#include <algorithm>

namespace troupe {

void LossMeter::add(const std::vector<StepResult>& results, std::int64_t global_examples) {
  examples_ += global_examples;
  for (const StepResult& result : results) {
    for (const auto& [name, loss] : result.losses) {
      const at::Tensor weighted =
          loss.to(torch::kFloat64).reshape({}) * static_cast<double>(global_examples);
      const auto known = std::find_if(sums_.begin(), sums_.end(),
                                      [&](const auto& sum) { return sum.first == name; });
      if (known == sums_.end()) {
        sums_.emplace_back(name, weighted);
      } else {
        known->second = known->second + weighted.to(known->second.device());
      }
    }
  }
}

void LossMeter::restore(const LossValues& sums, std::int64_t examples) {
  sums_.clear();
  for (const auto& [name, sum] : sums) {
    sums_.emplace_back(name, torch::tensor(sum, torch::kFloat64));
  }
  examples_ = examples;
}

LossValues LossMeter::sums() const {
  LossValues values;
  for (const auto& [name, sum] : sums_) values.emplace_back(name, sum.item<double>());
  return values;
}

}  // namespace troupe
