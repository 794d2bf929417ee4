// What an optimiser knows beside its parameters: options per group, state per parameter, by name.
// LibTorch keys its state by address, and its own loading leaves the options out before 2.4; here
// both are kept under names that do not change from run to run.
#pragma once

#include <torch/optim/optimizer.h>

#include <nlohmann/json_fwd.hpp>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooks/parameter_update.h"

namespace troupe::detail {

using StateMap = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

/// LibTorch's key of a parameter's state: its address, before 2.0 as the text a stream makes of it.
template <class Key = StateMap::key_type>
[[nodiscard]] Key state_key(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream address;
    address << static_cast<const void*>(parameter.unsafeGetTensorImpl());
    return address.str();
  } else {
    return static_cast<Key>(parameter.unsafeGetTensorImpl());
  }
}

}  // namespace troupe::detail

namespace troupe {

/// The description holds type, options and counters, {"type": "SGD", "groups": [{"options": {...},
/// "parameters": [...]}], "counters": {...}}; the tensors are named "<parameter>/<field>".
/// `parameters` names every tensor that the optimiser owns.
/// Throws: ConfigError for an optimiser other than SGD, Adam, AdamW, RMSprop and Adagrad.
[[nodiscard]] nlohmann::json describe_optimizer(torch::optim::Optimizer& optimizer,
                                                const std::vector<NamedTensor>& parameters,
                                                std::vector<NamedTensor>& tensors);

/// Puts options and state back into an optimiser over the same parameters; options that differ from
/// the optimiser's present ones are logged, the saved ones win.
/// Throws: CheckpointError when type, groups, names or shapes do not fit.
void restore_optimizer(torch::optim::Optimizer& optimizer,
                       const std::vector<NamedTensor>& parameters,
                       const nlohmann::json& description, const std::vector<NamedTensor>& tensors);

}  // namespace troupe
