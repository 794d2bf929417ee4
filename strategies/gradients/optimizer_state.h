// What an optimiser knows beside its parameters: options per group, state per parameter, by name.
// LibTorch keys its state by address, and its own loading leaves the options out before 2.4; here
// both are kept under names that do not change from run to run.
#pragma once

#include <torch/optim/optimizer.h>

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "troupe/hooks/parameter_update.h"

namespace troupe {

class Replica;

/// The description holds type, options and counters, {"type": "SGD", "groups": [{"options": {...},
/// "parameters": [...]}], "counters": {...}}; the tensors are named "<parameter>/<field>". The type
/// and the fields are those of the optimiser's kind.
/// `parameters` names every tensor that the optimiser owns.
/// Throws: ConfigError for an optimiser of no registered kind (hooks/optimizer_kind.h).
[[nodiscard]] nlohmann::json describe_optimizer(torch::optim::Optimizer& optimizer,
                                                const std::vector<NamedTensor>& parameters,
                                                std::vector<NamedTensor>& tensors);

/// The descriptions of all optimisers of a replica, by name; the tensors are named
/// "<optimiser>/<parameter>/<field>". Throws: ConfigError likewise.
[[nodiscard]] nlohmann::json describe_optimizers(Replica& replica,
                                                 std::vector<NamedTensor>& tensors);

/// Puts options and state back into an optimiser over the same parameters; options that differ from
/// the optimiser's present ones are logged, the saved ones win.
/// Throws: CheckpointError when type, groups, names or shapes do not fit.
void restore_optimizer(torch::optim::Optimizer& optimizer,
                       const std::vector<NamedTensor>& parameters,
                       const nlohmann::json& description, const std::vector<NamedTensor>& tensors);

}  // namespace troupe
