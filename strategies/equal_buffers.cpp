#include "troupe/strategies/equal_buffers.h"

#include <torch/types.h>

#include <utility>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/distributed/worker_group.h"
#include "troupe/strategies/tensor_sums.h"

namespace troupe::detail {

void make_buffers_equal(const TrainState& state, WorkerGroup* group) {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<NamedTensor>> buffers;  // by replica
  for (const auto& replica : state.replicas) buffers.push_back(replica->buffers());
  const int workers = group == nullptr ? 1 : group->world_size();
  const auto replicas = static_cast<double>(buffers.size()) * workers;
  std::vector<NamedTensor> firsts;  // the first replica's, which all are to have
  for (std::size_t k = 0; k < buffers.front().size(); ++k) {
    const at::Tensor& first = buffers.front()[k].second;
    if (!first.is_floating_point()) {
      firsts.push_back(buffers.front()[k]);
      continue;
    }
    std::vector<at::Tensor> values;
    for (const auto& own : buffers) {
      values.push_back(torch::empty(first.sizes(), torch::kFloat64).copy_(own[k].second));
    }
    const at::Tensor total = sum_in_rank_order(std::move(values));
    if (group != nullptr) {
      group->all_reduce(
          Span<double>(total.data_ptr<double>(), static_cast<std::size_t>(total.numel())),
          Deadline::in(group->options().collective_timeout));
    }
    first.copy_(total / replicas);
  }
  if (group != nullptr) {
    change_on_host(firsts, [&](Span<std::byte> bytes) {
      group->broadcast(bytes, /*root=*/0, Deadline::in(group->options().collective_timeout));
    });
  }
  for (const auto& own : buffers) copy_values(buffers.front(), own);
}

}  // namespace troupe::detail
