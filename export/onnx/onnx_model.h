// An ONNX file from a traced graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/export/onnx/dynamic_sizes.h"
#include "troupe/export/onnx/traced_graph.h"

namespace troupe::detail {

inline constexpr std::int64_t kOnnxOpset = 17;  // that of ONNX 1.12, Debian 12's; has layer norm

/// What the file says beside the operators.
struct OnnxInterface {
  std::vector<std::string> inputs;   // names, in the trace's order
  std::vector<std::string> outputs;  // likewise
  std::vector<DynamicSize> sizes;    // those of the trace
  std::int64_t global_step = 0;
};

/// Writes the model to `path`, or nowhere if that is empty, which finds the same faults. It passes
/// ONNX's own checker and its inference of shapes first. Values that the trace changes in place
/// must have no other use.
/// Throws: ConfigError naming all operators that are not covered, or what else ONNX cannot hold;
/// where Troupe was built without ONNX; EnvironmentError if the file cannot be written.
void write_onnx_model(const TracedGraph& trace, const OnnxInterface& interface,
                      const std::string& path);

}  // namespace troupe::detail
