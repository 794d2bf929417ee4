// What goes into an exported model and what comes out, and how files name the types.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// A tensor that goes in or comes out, by name.
struct TensorSignature {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;  // -1: the batch
};

struct ModelSignature {
  std::vector<TensorSignature> inputs;
  std::vector<TensorSignature> outputs;  // the first is the default
};

/// A type as the files spell it.
struct TypeName {
  const char* numpy = nullptr;   // "float32", as in NumPy and Python's torch
  const char* triton = nullptr;  // "TYPE_FP32"
};

/// Throws: ConfigError for a type that an export cannot hold (complex, quantised); `what` names the
/// tensor.
[[nodiscard]] TypeName type_name(at::ScalarType dtype, const std::string& what);

/// The content of signature.json.
/// Throws: ConfigError where a name is not UTF-8.
[[nodiscard]] std::string signature_json(const ModelSignature& signature, std::int64_t global_step);

}  // namespace troupe
