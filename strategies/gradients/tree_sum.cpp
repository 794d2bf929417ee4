#include "troupe/strategies/gradients/tree_sum.h"

#include <torch/types.h>

#include <utility>

#include "troupe/core/check.h"

namespace troupe::detail {

void TreeSum::push(const at::Tensor& values) {
  const torch::NoGradGuard no_grad;
  if (leaves_ % 2 == 0) {
    partials_.push_back(values.clone());
  } else {
    partials_.back().add_(values);
    // Two sums of as many leaves are the branches of a node.
    for (std::uint64_t size = 2; (leaves_ & size) != 0; size *= 2) merge_last();
  }
  ++leaves_;
}

at::Tensor TreeSum::take() {
  const torch::NoGradGuard no_grad;
  TROUPE_CHECK(!partials_.empty());
  while (partials_.size() > 1) merge_last();  // the right branches are the short ones
  const at::Tensor sum = partials_.front();
  partials_.clear();
  leaves_ = 0;
  return sum;
}

void TreeSum::merge_last() {
  const at::Tensor right = std::move(partials_.back());
  partials_.pop_back();
  partials_.back().add_(right);
}

}  // namespace troupe::detail
