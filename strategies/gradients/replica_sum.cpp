#include "troupe/strategies/gradients/replica_sum.h"

#include <torch/types.h>

#include <algorithm>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/distributed/collectives/reduction.h"
#include "troupe/strategies/tensor_sums.h"

namespace troupe::detail {
namespace {

/// The group tells summands apart, and has no words for them.
template <class Collective>
decltype(auto) named(const Summand& summand, Collective&& collective) try {
  const CollectiveLabel label(summand.label);
  return collective();
} catch (const DesyncError& error) {
  throw DesyncError(text(error.cause(), " This worker: ", summand.what, "."), error.fix());
}

}  // namespace

template <class Collective>
void ReplicaSum::with_engine(const Summand& summand, const char* what, const at::Tensor& flat,
                             Collective&& collective) {
  named(summand, [&] {
    const Traced traced(what, flat.nbytes());
    waits_->during(collective);
  });
}

ReplicaSum::ReplicaSum(ReplicaThreads& threads, TreeCut cut)
    : threads_(threads), cut_(std::move(cut)), flats_(static_cast<std::size_t>(threads.size())) {}

at::Tensor ReplicaSum::make_buffer(int replica, std::int64_t count,
                                   const at::TensorOptions& options, const Summand& summand) {
  if (replica != 0 || engine_ == nullptr) return torch::zeros({count}, options);
  return named(summand, [&] { return engine_->make_buffer(count, options); });
}

void ReplicaSum::add_up(int replica, const at::Tensor& flat, const Summand& summand) {
  const auto own = static_cast<std::size_t>(replica);
  if (threads_.size() == 1) return add_over_workers(flat, summand);
  const torch::NoGradGuard no_grad;
  flats_[own] = flat;
  threads_.meet(replica, summand.what);
  add_slice(replica);
  threads_.meet(replica, summand.what);
  if (engine_ == nullptr) return;
  if (replica == 0) add_over_workers(flat, summand);
  threads_.meet(replica, summand.what);
  if (replica != 0) flat.copy_(flats_[0]);
  // Nobody may write into its values again before all have read replica 0's.
  threads_.meet(replica, summand.what);
}

void ReplicaSum::reduce_scatter(int replica, const at::Tensor& flat, const Parts& parts,
                                const Summand& summand) {
  const torch::NoGradGuard no_grad;
  const int here = threads_.size();
  if (here == 1) {
    if (engine_ != nullptr) scatter_over_workers(flat, parts, summand);
    return;
  }
  flats_[static_cast<std::size_t>(replica)] = flat;
  threads_.meet(replica, summand.what);
  if (engine_ == nullptr) {
    add_part(replica, parts);
  } else {
    add_slice(replica);
    threads_.meet(replica, summand.what);
    if (replica == 0) scatter_over_workers(flat, parts, summand);
    threads_.meet(replica, summand.what);
    if (replica != 0) parts.of(flat, parts.own).copy_(parts.of(flats_[0], parts.own));
  }
  // Nobody may write into its values again before all have read them.
  threads_.meet(replica, summand.what);
}

void ReplicaSum::scatter_over_workers(const at::Tensor& flat, const Parts& parts,
                                      const Summand& summand) {
  with_engine(summand, "sum over workers", flat,
              [&] { engine_->reduce_scatter(flat, parts_of_workers(parts), summand); });
}

void ReplicaSum::all_gather(int replica, const at::Tensor& flat, const Parts& parts,
                            const Summand& summand) {
  const torch::NoGradGuard no_grad;
  const int here = threads_.size();
  const int first = parts.own - replica;  // replica 0's part
  flats_[static_cast<std::size_t>(replica)] = flat;
  if (here > 1) threads_.meet(replica, summand.what);
  if (replica == 0 || engine_ == nullptr) {
    for (int other = 0; other < here; ++other) {
      if (other == replica) continue;
      const at::Tensor& theirs = flats_[static_cast<std::size_t>(other)];
      parts.of(flat, first + other).copy_(parts.of(theirs, first + other));
    }
  }
  if (replica == 0 && engine_ != nullptr) {
    with_engine(summand, "gather over workers", flat,
                [&] { engine_->all_gather(flat, parts_of_workers(parts), summand); });
  }
  if (here == 1) return;
  threads_.meet(replica, summand.what);
  if (engine_ == nullptr) return;
  if (replica != 0) flat.copy_(flats_[0]);
  // Nobody may write into its values again before all have read replica 0's.
  threads_.meet(replica, summand.what);
}

/// `parts` are by replica; a worker's are neighbours.
Parts ReplicaSum::parts_of_workers(const Parts& parts) const {
  const auto here = static_cast<std::size_t>(threads_.size());
  Parts of_workers{{}, parts.own / threads_.size()};
  for (std::size_t last = here; last <= parts.ends.size(); last += here) {
    of_workers.ends.push_back(parts.ends[last - 1]);
  }
  return of_workers;
}

void ReplicaSum::add_over_workers(const at::Tensor& flat, const Summand& summand) {
  if (engine_ == nullptr) return;
  with_engine(summand, "sum over workers", flat, [&] { engine_->all_reduce(flat, summand); });
}

void ReplicaSum::copy_first(int replica, const std::vector<NamedTensor>& parameters,
                            const std::string& what) {
  if (replica == 0) first_ = &parameters;
  threads_.meet(replica, what);
  copy_values(*first_, parameters);
  threads_.meet(replica, what);
}

void ReplicaSum::add_part(int replica, const Parts& parts) {
  const at::Tensor own = parts.of(flats_[static_cast<std::size_t>(replica)], parts.own);
  std::vector<const std::byte*> operands;
  for (const at::Tensor& flat : flats_) {
    TROUPE_CHECK(flat.is_cpu() && flat.numel() == flats_[0].numel());
    operands.push_back(static_cast<const std::byte*>(parts.of(flat, parts.own).data_ptr()));
  }
  const Reduction sum = own.scalar_type() == torch::kFloat64 ? sum_of<double>() : sum_of<float>();
  add_along_tree(static_cast<std::byte*>(own.data_ptr()),
                 Span<const std::byte* const>(operands.data(), operands.size()),
                 static_cast<std::size_t>(own.numel()), sum, cut_);
}

void ReplicaSum::add_slice(int replica) {
  const std::int64_t size = flats_[0].numel();
  const bool on_host =
      std::all_of(flats_.begin(), flats_.end(), [](const at::Tensor& t) { return t.is_cpu(); });
  // Kernels of one device run one after the other anyway, so there replica 0 adds everything.
  const std::int64_t parts = on_host ? threads_.size() : 1;
  const std::int64_t line = 16;  // values in a cache line: no two threads write into one
  const std::int64_t chunk = (size + parts * line - 1) / (parts * line) * line;
  const std::int64_t begin = std::min(size, replica * chunk);
  const std::int64_t count = std::min(size - begin, chunk);
  if (count == 0) return;
  std::vector<at::Tensor> slices;
  for (const at::Tensor& flat : flats_) {
    TROUPE_CHECK_EQ(flat.numel(), size);
    slices.push_back(flat.narrow(0, begin, count));
  }
  const at::Tensor total = sum_along_tree(std::move(slices), cut_);
  if (engine_ != nullptr) return;  // there are more to come
  for (std::size_t i = 1; i < flats_.size(); ++i) {
    flats_[i].narrow(0, begin, count).copy_(total);
  }
}

}  // namespace troupe::detail
