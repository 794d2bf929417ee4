#include "troupe/strategies/tensor_sums.h"

#include <torch/types.h>

#include <utility>

#include "troupe/core/check.h"

namespace troupe::detail {
namespace {

at::Tensor sum_of_parts(const std::vector<at::Tensor>& operands, const TreeCut& cut, int first,
                        int last) {
  if (last - first == 1) return operands[static_cast<std::size_t>(first)];
  const int middle = cut.middle(first, last);
  const at::Tensor sum = sum_of_parts(operands, cut, first, middle);
  const at::Tensor upper = sum_of_parts(operands, cut, middle, last);
  return sum.is_sparse() ? (sum + upper).coalesce() : sum.add_(upper.to(sum.device()));
}

}  // namespace

at::Tensor sum_along_tree(std::vector<at::Tensor> operands, const TreeCut& cut) {
  TROUPE_CHECK_EQ(operands.size(), static_cast<std::size_t>(cut.parts()));
  return sum_of_parts(operands, cut, 0, cut.parts());
}

at::Tensor sum_in_rank_order(std::vector<at::Tensor> operands) {
  const TreeCut cut(static_cast<int>(operands.size()));
  return sum_along_tree(std::move(operands), cut);
}

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
