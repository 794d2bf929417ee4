// RunSnapshot: a running training as files of tensors, and back. What it holds is what the next
// step depends on: parameters, optimisers, every replica's buffers, random states, the position in
// the data, what the epoch's loss and metrics have added up, the averaged weights, and what a
// plateau schedule remembers. docs/checkpoint_format.md has the names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/core/options/train_options.h"
#include "troupe/core/text.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// What must be equal for a position in the data to mean the same examples.
struct DataIdentity {
  std::int64_t examples = 0;
  std::int64_t global_batch = 0;
  std::uint64_t seed = 0;
  std::int64_t batches_per_step = 1;  // that a step of the position reads, of global_batch examples
  std::int64_t epoch_examples = 0;    // that an epoch reads
  std::string order = "shuffled";     // ShardPlan::order_signature()
  std::string digest = {};            // data_digest; other data is a warning
};
/// Of training data whose steps make `updates_per_step` updates.
[[nodiscard]] DataIdentity identity_of(const DistributedDataset& train, const TrainOptions& options,
                                       std::int64_t updates_per_step);

struct RunSnapshot {
  std::map<std::string, std::vector<NamedTensor>> files;  // "model.safetensors", ...; on the host
  nlohmann::json facts;                                   // step, position, optimisers, ...
};

/// A copy of the state of all workers, complete on the chief; other ranks get an empty one. Changes
/// nothing. Collective: yes.  Throws: ConfigError for an optimiser that cannot be saved.
[[nodiscard]] RunSnapshot capture(Strategy& strategy, const TrainState& state,
                                  const DataIdentity& data);

/// Whether the workers' own states are of the form that capture() gives them: the generator accepts
/// the random state, and sums are of doubles. What only the model can judge, restore() checks.
/// Throws: CheckpointError naming the file.
void check_own_states(const RunSnapshot& snapshot);

namespace detail {
/// Who passes in the snapshot that is restored, complete.
enum class Holder { chief, every_worker };
}  // namespace detail

/// Puts the state that the chief passes in back, on every replica of every worker. With the numbers
/// of workers and replicas that it was captured at, the next step is the one that would have
/// followed, bit for bit. With others, weights, optimisers and data position are restored, buffers
/// are the mean over the former replicas, and random streams start anew. With virtual replicas it
/// is the same on any number of workers and replicas, bit for bit. Shapes: `snapshot` is read on
/// the chief only. Where every worker has it, a worker restores it alone. Collective: yes, of the
/// chief's. Throws: CheckpointError when it does not fit the model, ConfigError when it does not
/// fit the data, the number of virtual replicas, or, with those, the arithmetic; on every rank.
void restore(Strategy& strategy, TrainState& state, const DataIdentity& data,
             const RunSnapshot& snapshot, detail::Holder holder = detail::Holder::chief);

/// The chief's snapshot, on every worker.  Collective: yes.
[[nodiscard]] RunSnapshot copy_to_all(Strategy& strategy, const RunSnapshot& mine);

namespace detail {

// What capture and restore of a run must agree on: names of files and tensors.

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizersFile[] = "optimizers.safetensors";
inline constexpr char kAveragesFile[] = "averages.safetensors";
/// Instead of the workers' files where there are virtual replicas: all workers hold the same.
inline constexpr char kCommonFile[] = "common.safetensors";
inline std::string worker_file(int rank) { return text("worker-", rank, ".safetensors"); }

inline constexpr char kLosses[] = "losses";
inline constexpr char kMetrics[] = "metrics";  // behind the replica's prefix
inline constexpr char kBuffer[] = "buffer/";
inline constexpr char kOwn[] = "own/";            // what Trainable::add_own added
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

/// The replicas' devices, in their order.
std::vector<c10::Device> devices_of(const TrainState& state);

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

}  // namespace detail
}  // namespace troupe
