// TensorFile: named tensors to the bytes of a safetensors file and back.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "troupe/core/safetensors.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe {

/// The file's own texts, by name.
using TensorTexts = std::map<std::string, std::string>;

/// Gives `sink` the file, tensor by tensor, without a copy of those that are contiguous on the
/// host; gradients and views are not kept.
/// Throws: ConfigError for a dtype that the format does not have (complex, quantised).
void write_tensors(const std::vector<NamedTensor>& tensors, const ByteSink& sink,
                   const TensorTexts& texts = {});
/// The same in one piece.
[[nodiscard]] std::vector<std::byte> write_tensors(const std::vector<NamedTensor>& tensors,
                                                   const TensorTexts& texts = {});

/// Tensors on the host, which own the file's memory together. `shown` names the file in messages.
/// Throws: CheckpointError when the bytes are no such file.
[[nodiscard]] std::vector<NamedTensor> read_tensors(std::vector<std::byte> file,
                                                    const std::string& shown,
                                                    TensorTexts* texts = nullptr);

}  // namespace troupe
