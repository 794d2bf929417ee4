// Sums of tensors in the order in which the group adds (distributed/group/tree_cut.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "troupe/distributed/group/tree_cut.h"

namespace troupe::detail {

/// The sum of `operands`, which are by part of `cut` and all dense or all sparse, in its order.
/// A dense sum is in the first one's memory, and the others' values are
/// used up; sparse tensors are coalesced after each addition.
[[nodiscard]] at::Tensor sum_along_tree(std::vector<at::Tensor> operands, const TreeCut& cut);
/// The same where each operand is a leaf.
[[nodiscard]] at::Tensor sum_in_rank_order(std::vector<at::Tensor> operands);

/// The same of tensors that come one after the other, as a binary counter: of n tensors log2(n) + 1
/// sums are kept.
class TreeSum {
 public:
  /// The next leaf. `values` are read, and may be changed afterwards.
  /// Shapes: all [n], of one type and device.
  void push(const at::Tensor& values);
  /// The sum of all leaves, of which there is one at least; begins anew.
  [[nodiscard]] at::Tensor take();

 private:
  void merge_last();

  std::vector<at::Tensor> partials_;  // each of 2^k leaves, the largest first
  std::uint64_t leaves_ = 0;
};

}  // namespace troupe::detail
