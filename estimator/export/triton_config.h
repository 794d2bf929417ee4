// The configuration that NVIDIA's Triton Inference Server reads for an exported model.
#pragma once

#include <string>
#include <vector>

#include "estimator/export/model_signature.h"

namespace troupe {

/// Names by which Triton's clients call `tensors`: "<name>__<position>". Its PyTorch backend takes
/// everything after the first "__" for the position, so a name in which that would be something
/// else, or that has other characters than letters, digits, '_', '-' and '.', becomes `fallback`
/// ("INPUT", "OUTPUT").
[[nodiscard]] std::vector<std::string> triton_names(const std::vector<TensorSignature>& tensors,
                                                    const std::string& fallback);

/// The content of config.pbtxt. The batch is a dimension like any other (max_batch_size 0), so that
/// clients send exactly the shapes of signature.json.
[[nodiscard]] std::string triton_config(const std::string& model_name,
                                        const ModelSignature& signature);

}  // namespace troupe
