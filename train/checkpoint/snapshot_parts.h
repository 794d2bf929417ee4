// What capture and restore of a run must agree on: names of files and tensors.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "strategies/strategy.h"

namespace troupe::detail {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizersFile[] = "optimizers.safetensors";
inline constexpr char kAveragesFile[] = "averages.safetensors";
inline std::string worker_file(int rank) { return text("worker-", rank, ".safetensors"); }

inline constexpr char kBuffer[] = "buffer/";
inline constexpr char kStrategy[] = "strategy/";  // what Strategy::own_state() gives
/// Before the names of what a replica of a worker has of its own; nothing for the first.
inline std::string replica_prefix(std::size_t replica) {
  return replica == 0 ? "" : text("replica-", replica, "/");
}

inline CheckpointError does_not_fit(const std::string& what) {
  return CheckpointError("the checkpoint does not fit the model: " + what + ".",
                         "resume with the hooks that made it, or start in another --model-dir.");
}

/// The tensor of that name. Throws: CheckpointError where there is none.
const at::Tensor& find(const std::vector<NamedTensor>& tensors, const std::string& name);

/// What decides how sums round: the same run on another of these is equal up to rounding only.
nlohmann::json arithmetic();

/// Where a schedule moves the learning rates: calls `visit` with the described and the remembered
/// rate of every group.
template <class V>
void each_rate(const TrainState& state, nlohmann::json& facts, V&& visit) {
  if (state.base_rates.empty()) return;
  const auto names = state.replicas.front()->optimizer_names();
  for (std::size_t o = 0; o < names.size(); ++o) {
    nlohmann::json& groups = facts.at("optimizers").at(names[o]).at("groups");
    // Another number of groups is refused where the optimiser is restored.
    const std::size_t count = std::min(groups.size(), state.base_rates[o].size());
    for (std::size_t g = 0; g < count; ++g) {
      visit(groups[g].at("options").at("lr"), state.base_rates[o][g]);
    }
  }
}

}  // namespace troupe::detail
