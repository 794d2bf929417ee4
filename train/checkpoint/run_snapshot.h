// RunSnapshot: a running training as files of tensors, and back. What it holds is what the next
// step depends on: parameters, optimisers, every replica's buffers, random states, the position in
// the data, what the epoch's loss and metrics have added up, the averaged weights, and what a
// plateau schedule remembers. docs/checkpoint_format.md has the
// names.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "strategies/strategy.h"

namespace troupe {

/// What must be equal for a position in the data to mean the same examples.
struct DataIdentity {
  std::int64_t examples = 0;
  std::int64_t global_batch = 0;
  std::uint64_t seed = 0;
  std::int64_t batches_per_step = 1;  // that a step of the position reads, of global_batch examples
};

struct RunSnapshot {
  std::map<std::string, std::vector<NamedTensor>> files;  // "model.safetensors", ...; on the host
  nlohmann::json facts;                                   // step, position, optimisers, ...
};

/// A copy of the state of all workers, complete on the chief; other ranks get an empty one. Changes
/// nothing. Collective: yes.  Throws: ConfigError for an optimiser that cannot be saved.
[[nodiscard]] RunSnapshot capture(Strategy& strategy, const TrainState& state,
                                  const DataIdentity& data);

/// Puts the state that the chief passes in back, on every replica of every worker. With the numbers
/// of workers and replicas that it was captured at, the next step is the one that would have
/// followed, bit for bit. With others, weights, optimisers and data position are restored, buffers
/// are the mean over the former replicas, and random streams start anew. Shapes: `snapshot` is read
/// on the chief only. Collective: yes. Throws: CheckpointError when it does not fit the model,
/// ConfigError when it does not fit the data; on every rank.
void restore(Strategy& strategy, TrainState& state, const DataIdentity& data,
             const RunSnapshot& snapshot);

}  // namespace troupe
