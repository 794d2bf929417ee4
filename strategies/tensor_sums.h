// Sums of tensors in the order in which the group adds (distributed/group/tree_cut.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "troupe/distributed/group/tree_cut.h"

namespace troupe::detail {

/// The sum of `operands`, which are by part of `cut` and all dense or all sparse, in its order.
/// A dense sum is in the first one's memory, and the others' values are
/// used up; sparse tensors are coalesced after each addition.
[[nodiscard]] at::Tensor sum_along_tree(std::vector<at::Tensor> operands, const TreeCut& cut);
/// The same where each operand is a leaf.
[[nodiscard]] at::Tensor sum_in_rank_order(std::vector<at::Tensor> operands);

}  // namespace troupe::detail
