// TreeSum: tensors that come one after the other, added up along the tree over all of them
// (distributed/group/tree_cut.h), as a binary counter: of n tensors log2(n) + 1 sums are kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace troupe::detail {

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
