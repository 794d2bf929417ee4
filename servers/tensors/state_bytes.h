// StateBytes: values and optimiser state of some shards as bytes, between the chief and the
// servers.
//
// Format, all numbers little-endian: 8 bytes "troupePS", 8 bytes length of a JSON text, the text
// {"optimizers": [...], "tensors": [{"name", "dtype", "shape"}, ...]}, then the tensors' elements
// one after the other, nothing between them.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/span.h"
#include "hooks/parameter_update.h"

namespace troupe::detail {

struct ShardState {
  nlohmann::ordered_json optimizers = nlohmann::ordered_json::array();  // as describe_optimizer
  std::vector<NamedTensor> tensors;                                     // on the host
};

[[nodiscard]] std::vector<std::byte> write_state(const ShardState& state);
/// Bytes are hostile. Throws: ConfigError where they are no such state.
[[nodiscard]] ShardState read_state(Span<const std::byte> bytes);

}  // namespace troupe::detail
