// ONNX from a C++ model: predict_step is traced at several sizes, and the traces become one graph
// in which batch and named lengths are free.
//
// Legend: B examples of a batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/export/model_export.h"
#include "troupe/export/model_signature.h"
#include "troupe/hooks/hooks.h"

namespace troupe {

/// A dimension of an input, beside the batch, that may have another size at every call. Dimensions
/// of one name have one size.
struct DynamicLength {
  std::string input;           // a feature's name
  std::int64_t dimension = 1;  // from 1 on; 0 is the batch
  std::string name;            // "length"
};
/// From "tokens:1=length". Throws: ConfigError.
[[nodiscard]] DynamicLength parse_dynamic_length(const std::string& text);

/// Traces hooks.predict_step on `examples` (each [B, ...], B >= 2) and writes the model to `path`,
/// or nowhere where that is empty, which finds the same faults. It takes the inputs by their names
/// and gives the predictions by theirs, in any batch size and any lengths. The model is not run;
/// ONNX's checker sees it. Leaves the default generators, the replica's mode and its metrics as
/// they were. Throws: ConfigError naming the operators that the export does not cover; where the
/// model does something else for other sizes, draws random numbers, or where names or lengths do
/// not fit; where Troupe was built without ONNX; EnvironmentError if the file cannot be written.
ModelSignature write_onnx(const Hooks& hooks, Replica& replica,
                          const std::vector<NamedTensor>& examples,
                          const std::vector<DynamicLength>& lengths, std::int64_t global_step,
                          const std::string& path);

}  // namespace troupe
