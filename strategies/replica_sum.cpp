#include "strategies/replica_sum.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/text.h"
#include "distributed/collective_label.h"
#include "strategies/tensor_sum.h"

namespace troupe::detail {
namespace {

void sum_over_workers(Engine& engine, const at::Tensor& flat, const Summand& summand) try {
  const CollectiveLabel label(summand.what);
  engine.all_reduce(flat, summand);
} catch (const DesyncError& error) {  // the group tells summands apart, and has no words for them
  throw DesyncError(text(error.cause(), " This worker: ", summand.what, "."), error.fix());
}

/// One cheap pass; finite numbers may overflow it, so false asks for a closer look.
bool is_finite(const at::Tensor& values) { return std::isfinite(values.sum().item<double>()); }

}  // namespace

ReplicaSum::ReplicaSum(ReplicaThreads& threads)
    : threads_(threads),
      flats_(static_cast<std::size_t>(threads.size())),
      finite_(flats_.size(), 1) {}

bool ReplicaSum::add_up(int replica, const at::Tensor& flat, const Summand& summand) {
  const auto own = static_cast<std::size_t>(replica);
  const torch::NoGradGuard no_grad;
  if (threads_.size() == 1) {
    if (engine_ != nullptr) sum_over_workers(*engine_, flat, summand);
    return is_finite(flat);
  }
  flats_[own] = flat;
  threads_.meet(replica, summand.what);
  finite_[own] = add_slice(replica) ? 1 : 0;
  threads_.meet(replica, summand.what);
  if (engine_ == nullptr) {
    return std::all_of(finite_.begin(), finite_.end(), [](char finite) { return finite != 0; });
  }
  if (replica == 0) {
    sum_over_workers(*engine_, flat, summand);
    finite_[0] = is_finite(flat) ? 1 : 0;
  }
  threads_.meet(replica, summand.what);
  const bool finite = finite_[0] != 0;
  if (replica != 0) flat.copy_(flats_[0]);
  // Nobody may write into its values again before all have read replica 0's.
  threads_.meet(replica, summand.what);
  return finite;
}

bool ReplicaSum::add_slice(int replica) {
  const std::int64_t size = flats_[0].numel();
  const bool on_host =
      std::all_of(flats_.begin(), flats_.end(), [](const at::Tensor& t) { return t.is_cpu(); });
  // Kernels of one device run one after the other anyway, so there replica 0 adds everything.
  const std::int64_t parts = on_host ? threads_.size() : 1;
  const std::int64_t line = 16;  // values in a cache line: no two threads write into one
  const std::int64_t chunk = (size + parts * line - 1) / (parts * line) * line;
  const std::int64_t begin = std::min(size, replica * chunk);
  const std::int64_t count = std::min(size - begin, chunk);
  if (count == 0) return true;
  std::vector<at::Tensor> slices;
  for (const at::Tensor& flat : flats_) {
    TROUPE_CHECK_EQ(flat.numel(), size);
    slices.push_back(flat.narrow(0, begin, count));
  }
  const at::Tensor total = sum_in_rank_order(std::move(slices));
  if (engine_ != nullptr) return true;  // there are more to come
  for (std::size_t i = 1; i < flats_.size(); ++i) {
    flats_[i].narrow(0, begin, count).copy_(total);
  }
  return is_finite(total);
}

}  // namespace troupe::detail
