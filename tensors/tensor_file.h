// TensorFile: named tensors to the bytes of a safetensors file and back.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/span.h"
#include "tensors/named_tensor.h"

namespace troupe {

/// The tensors' values, wherever they are; gradients and views are not kept.
/// Throws: ConfigError for a dtype that the format does not have (complex, quantised).
[[nodiscard]] std::vector<std::byte> write_tensors(const std::vector<NamedTensor>& tensors);

/// Tensors on the host that own their memory. `shown` names the file in messages.
/// Throws: CheckpointError when the bytes are no such file.
[[nodiscard]] std::vector<NamedTensor> read_tensors(Span<const std::byte> file,
                                                    const std::string& shown);

}  // namespace troupe
