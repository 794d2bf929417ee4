#include "train/weight_check.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/text.h"
#include "strategies/gradients/optimizer_state.h"
#include "strategies/weight_comparison.h"

namespace troupe::detail {
namespace {

/// Beside the parameters, of the first replica: the chief's is what is saved. Other replicas of a
/// worker may have none, and what is wrong in theirs shows in their weights a step later.
std::vector<NamedTensor> saved_for_all(const TrainState& state) {
  Replica& replica = *state.replicas.front();
  std::vector<NamedTensor> all;
  if (state.averages) all = state.averages->values;
  for (const std::string& name : replica.optimizer_names()) {
    std::vector<NamedTensor> tensors;
    (void)describe_optimizer(replica.optimizer(name), replica.parameters(), tensors);
    for (auto& [tensor_name, tensor] : tensors) {
      all.emplace_back(text(name, "/", tensor_name), tensor);
    }
  }
  return all;
}

}  // namespace

void check_weights(Strategy& strategy, const TrainState& state, Compared compared,
                   std::optional<std::int64_t> saved) {
  const int workers = strategy.pace().voices();
  const std::string when = text("after step ", state.step);
  const std::string newest =
      saved ? text("the newest checkpoint is of step ", *saved, ".") : "there is no checkpoint.";
  const std::string consequence = "Nothing of this step was saved; " + newest;
  if (workers > 1 || state.replicas.size() > 1) {
    Copies weights{"weights", {}};
    for (const auto& replica : state.replicas) weights.lists.push_back(replica->parameters());
    compare_copies(strategy, weights, when, consequence);
  }
  if (compared == Compared::weights || workers == 1) return;
  compare_copies(strategy, {"averages and optimiser states", {saved_for_all(state)}}, when,
                 consequence);
}

}  // namespace troupe::detail
