#include "strategies/gradients/tensor_sum.h"

#include <torch/types.h>

#include "core/check.h"

namespace troupe::detail {

at::Tensor sum_in_rank_order(std::vector<at::Tensor> operands) {
  TROUPE_CHECK(!operands.empty());
  for (std::size_t branch = 1; branch < operands.size(); branch *= 2) {
    for (std::size_t lower = 0; lower + branch < operands.size(); lower += 2 * branch) {
      at::Tensor& sum = operands[lower];
      const at::Tensor& upper = operands[lower + branch];
      sum = sum.is_sparse() ? (sum + upper).coalesce() : sum.add_(upper.to(sum.device()));
    }
  }
  return operands.front();
}

}  // namespace troupe::detail
