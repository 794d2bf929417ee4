// What LibTorch's tracer recorded, as plain data.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "troupe/export/onnx/traced_graph.h"

namespace troupe::detail {

/// The forward of `module`, which trace_module made: its operators, with the module's parameters
/// and buffers as weights, whose memory the result keeps alive.
/// Throws: ConfigError for a tensor of a type that an export cannot hold.
[[nodiscard]] TracedGraph read_trace(const torch::jit::Module& module);

}  // namespace troupe::detail
