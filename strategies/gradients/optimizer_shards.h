// How optimisers' state is divided among replicas: by whole parameters, so that every optimiser
// that steps parameters by themselves can be divided, and each parameter's state is as it is
// undivided.
#pragma once

#include <torch/optim/optimizer.h>

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe {

class Replica;

namespace detail {

/// Which of `shards` replicas has each parameter: the largest first, each to the replica that has
/// the fewest bytes so far. So no replica has more than the mean and the largest parameter.
/// Source: Graham 1969, "Bounds on multiprocessing timing anomalies" (longest processing time
/// first).
[[nodiscard]] std::vector<int> owners_of(const std::vector<NamedTensor>& parameters, int shards);

/// What `shard` of `shards` is to restore by restore_optimizer() of an optimiser that is described
/// whole: the same without the counters, and so the state, of the others' parameters.
[[nodiscard]] nlohmann::json description_of_shard(nlohmann::json description,
                                                  torch::optim::Optimizer& optimizer, int shard,
                                                  int shards);

/// Before the first step. `logs`: says what share of each optimiser's parameters the fullest
/// replica has. Throws: ConfigError naming an optimiser of no registered kind, which may depend on
/// all parameters at once.
void check_sharding(Replica& replica, int shards, bool logs);

}  // namespace detail
}  // namespace troupe
