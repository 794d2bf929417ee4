#include "troupe/train/schedule/averaged_weights.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <exception>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// The parameters of `replica` that `averages` are of, in their order.
std::vector<at::Tensor> averaged_parameters(const detail::WeightAverages& averages,
                                            const Replica& replica) {
  std::vector<at::Tensor> found;
  for (const auto& [name, parameter] : replica.parameters()) {
    const std::size_t next = found.size();
    if (next < averages.values.size() && averages.values[next].first == name) {
      found.push_back(parameter);
    }
  }
  TROUPE_CHECK(found.size() == averages.values.size());
  return found;
}

detail::WeightAverages fresh_averages(const Replica& replica) {
  detail::WeightAverages averages;
  for (const auto& [name, parameter] : replica.parameters()) {
    const auto type = parameter.scalar_type();
    if (type != torch::kFloat32 && type != torch::kFloat64) continue;
    averages.values.emplace_back(name, parameter.detach().clone());
    averages.weights.emplace_back(name, parameter);
  }
  return averages;
}

}  // namespace

double averaging_decay(double decay, std::int64_t updates) {
  const auto n = static_cast<double>(updates);
  return std::min(decay, (1 + n) / (10 + n));
}

void keep_averages(TrainState& state, double decay) {
  if (!(decay >= 0 && decay < 1)) {
    throw ConfigError(text("--ema-decay is ", decay, "."),
                      "give a number of at least 0 and below 1.");
  }
  if (decay == 0) {
    state.averages.reset();
    return;
  }
  if (!state.averages) state.averages = fresh_averages(*state.replicas.front());
  state.averages->decay = decay;
}

void update_averages(TrainState& state) {
  const torch::NoGradGuard no_grad;
  detail::WeightAverages& averages = *state.averages;
  const double decay = averaging_decay(averages.decay, averages.updates);
  for (std::size_t i = 0; i < averages.values.size(); ++i) {
    // The average of what does not change is that, to the bit; a sum of products would not be.
    averages.values[i].second.lerp_(averages.weights[i].second, 1 - decay);
  }
  ++averages.updates;
}

AveragesInUse::AveragesInUse(TrainState& state) {
  if (!state.averages) return;
  const torch::NoGradGuard no_grad;
  for (const auto& replica : state.replicas) {
    std::vector<at::Tensor> parameters = averaged_parameters(*state.averages, *replica);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      // Replicas have equal weights, so one copy of them, the first replica's, is enough.
      const at::Tensor own =
          replica == state.replicas.front() ? parameters[i].clone() : own_[i].second;
      own_.emplace_back(parameters[i], own);
      parameters[i].copy_(state.averages->values[i].second);
    }
  }
}

AveragesInUse::~AveragesInUse() {
  try {
    const torch::NoGradGuard no_grad;
    for (auto& [parameter, own] : own_) parameter.copy_(own);
  } catch (const std::exception& error) {  // a device that fails: the next step will, too
    log_error("the weights could not be put back after an evaluation: ", error.what());
  }
}

}  // namespace troupe
