// Which numbers of a trace are sizes. In C++ x.size(0) is a number like any other, so one trace
// cannot tell a batch of 6 from a kernel of 6. Traces of the same model at other sizes can: what
// differs between them is a function of the sizes, and is found by solving for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/export/onnx/traced_graph.h"

namespace troupe::detail {

/// A size that may change from call to call, and the inputs' dimensions that have it.
struct DynamicSize {
  struct Place {
    std::size_t input = 0;  // in the order of the inputs
    std::size_t dimension = 0;
  };
  std::string name;           // "batch"
  std::vector<Place> places;  // at least one
};

inline constexpr std::size_t kMostDynamicSizes = 3;

/// Sizes at which to trace, one value for each dynamic size: every combination of `first` and
/// `second`, the first size's second value coming second, then `third`, which decides nothing and
/// on which the result must hold.
[[nodiscard]] std::vector<std::vector<std::int64_t>> sizes_to_trace(
    const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second,
    const std::vector<std::int64_t>& third);

/// One graph of traces that were made at `sizes`, as sizes_to_trace gives them. `names`: of the
/// dynamic sizes. A number that follows no formula (Size) is refused where an operator has it as
/// an argument; in a shape it becomes unknown.
/// Throws: ConfigError naming the operator where the traces differ in more than whole numbers.
[[nodiscard]] TracedGraph merge_traces(const std::vector<TracedGraph>& traces,
                                       const std::vector<std::vector<std::int64_t>>& sizes,
                                       const std::vector<std::string>& names);

}  // namespace troupe::detail
