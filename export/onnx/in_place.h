// Operators that change a tensor in place, which ONNX does not know.
#pragma once

#include "troupe/export/onnx/traced_graph.h"

namespace troupe::detail {

/// Every "aten::add_" becomes an "aten::add" with a result of its own, which is what the trace uses
/// from there on. Throws: ConfigError where another tensor shares the memory of the one that is
/// changed, so that it would change too.
void replace_in_place(TracedGraph& trace);

}  // namespace troupe::detail
