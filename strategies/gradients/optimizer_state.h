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

/// The options of each parameter group: [{"lr": 0.1, "momentum": 0.9}].
/// Throws: ConfigError for an optimiser of no registered kind (hooks/optimizer_kind.h).
[[nodiscard]] nlohmann::json options_of(torch::optim::Optimizer& optimizer);

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

/// Puts options and state back into an optimiser over the same parameters, which is as create_model
/// made it. An option has the saved value, which a loop may have changed; but a number that
/// create_model made another one then, which a group of the description has as "made", has its
/// present one, and the log says so.
/// Throws: CheckpointError when type, groups, names or shapes do not fit.
void restore_optimizer(torch::optim::Optimizer& optimizer,
                       const std::vector<NamedTensor>& parameters,
                       const nlohmann::json& description, const std::vector<NamedTensor>& tensors);

}  // namespace troupe
