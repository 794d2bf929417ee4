// tensor_sum: tensors of replicas or workers added in the one order that all sums have.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe::detail {

/// The sum of `operands`, which are by rank and all dense or all sparse, in the order of
/// distributed/collectives/reduction.h. A dense sum is in the first one's memory, and the others'
/// values are used up; sparse tensors are coalesced after each addition.
[[nodiscard]] at::Tensor sum_in_rank_order(std::vector<at::Tensor> operands);

}  // namespace troupe::detail
