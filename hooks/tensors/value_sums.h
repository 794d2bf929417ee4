// ValueSum: a tensor's values as a number that differs if they do, to see whether something has
// changed them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::detail {

struct ValueSum {
  std::int64_t version = 0;  // LibTorch's count of changes in place, which .data() evades
  std::int64_t bits = 0;     // the sum of all values' bits
};

/// Of a sparse tensor: of its values. The host waits for the device here.
/// Cost: a pass over the values.
[[nodiscard]] ValueSum value_sum(const at::Tensor& tensor);

}  // namespace troupe::detail
