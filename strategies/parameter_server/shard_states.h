// Shard states: a replica's parameters and optimisers divided among servers, and put together
// again. What the servers keep is the chief's own state, cut along axis 0, so a checkpoint knows
// nothing of servers.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "troupe/strategies/parameter_server/served_parameters.h"

namespace troupe::detail {

/// Values and optimiser states of one server's shards. Between the chief and the servers it travels
/// as a safetensors file, the descriptions in its text "optimizers".
struct ShardState {
  nlohmann::json optimizers = nlohmann::json::array();  // as describe_optimizer
  std::vector<NamedTensor> tensors;
};
[[nodiscard]] std::vector<std::byte> write_state(const ShardState& state);
/// Bytes are hostile. Throws: ConfigError where they are no such state.
[[nodiscard]] ShardState read_state(Span<const std::byte> bytes);

/// An optimiser as one server is to have it: its description, and the tensors of its state.
/// `description` and `tensors` are those of describe_optimizer; the result names shards where they
/// name parameters, and holds the server's alone.
[[nodiscard]] nlohmann::json shards_of_optimizer(const nlohmann::json& description,
                                                 const std::vector<NamedTensor>& tensors,
                                                 const ServedParameters& served, int server,
                                                 std::vector<NamedTensor>& own);

/// Before the names of an optimiser's tensors in a ShardState, and the name of a shard's values.
[[nodiscard]] std::string optimizer_prefix(std::size_t optimizer);
[[nodiscard]] std::string value_name(const ServedParameters& served, int shard);

/// The replica's parameters and optimisers, one blob for each server.
[[nodiscard]] std::vector<std::vector<std::byte>> split_state(Replica& replica,
                                                              const ServedParameters& served,
                                                              int servers);

/// Gives the replica what its servers hold of its optimisers' parameters and state; the options of
/// its optimisers stay its own.
/// Throws: ConfigError where the states do not fit the replica or each other.
void merge_state(Replica& replica, const ServedParameters& served,
                 const std::vector<std::vector<std::byte>>& states);

}  // namespace troupe::detail
