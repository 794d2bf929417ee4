// What goes into an exported model and what comes out, as signature.json and Triton say it.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/core/options/train_options.h"
#include "troupe/export/onnx/traced_graph.h"

namespace troupe {

/// A tensor that goes in or comes out, by name.
struct TensorSignature {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;  // -1: the batch, or another dynamic size
};

struct ModelSignature {
  std::vector<TensorSignature> inputs;
  std::vector<TensorSignature> outputs;  // the first is the default
};

/// A type as the files spell it.
struct TypeName {
  const char* numpy = nullptr;   // "float32", as in NumPy and Python's torch
  const char* triton = nullptr;  // "TYPE_FP32"
  detail::ElementType onnx = detail::ElementType::float32;
};

/// Throws: ConfigError for a type that an export cannot hold (complex, quantised); `what` names the
/// tensor.
[[nodiscard]] TypeName type_name(at::ScalarType dtype, const std::string& what);

/// The content of signature.json. Throws: ConfigError where a name is not UTF-8.
[[nodiscard]] std::string signature_json(const ModelSignature& signature, std::int64_t global_step,
                                         ExportFormat format);

/// Names by which Triton's clients call `tensors`. Of ONNX their own; of TorchScript
/// "<name>__<position>": Triton's PyTorch backend takes everything after the first "__" for the
/// position, so a name in which that would be something else, or that has other characters than
/// letters, digits, '_', '-' and '.', becomes `fallback` ("INPUT", "OUTPUT").
[[nodiscard]] std::vector<std::string> triton_names(const std::vector<TensorSignature>& tensors,
                                                    const std::string& fallback,
                                                    ExportFormat format);

/// The content of config.pbtxt, which NVIDIA's Triton Inference Server reads. The batch is a
/// dimension like any other (max_batch_size 0), so that clients send exactly the shapes of
/// signature.json.
[[nodiscard]] std::string triton_config(const std::string& model_name,
                                        const ModelSignature& signature, ExportFormat format);

}  // namespace troupe
