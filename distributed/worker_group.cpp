#include "troupe/distributed/worker_group.h"

#include <algorithm>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/machine.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/distributed/collectives/collectives.h"
#include "troupe/distributed/group/topology.h"
#include "troupe/distributed/membership/membership.h"
#include "troupe/distributed/net/address.h"
#include "troupe/distributed/shared_memory/make_shared_memory_group.h"

namespace troupe {
namespace {

constexpr std::align_val_t kLine{64};

std::shared_ptr<std::byte> aligned_memory(std::size_t bytes) {
  auto* const memory =
      static_cast<std::byte*>(::operator new[](std::max<std::size_t>(bytes, 1), kLine));
  return {memory, [](std::byte* mine) { ::operator delete[](mine, kLine); }};
}

/// Parts that end at `ends`, in values of `value_bytes`.
std::vector<Span<std::byte>> parts_of(Span<std::byte> values, Span<const std::size_t> ends,
                                      std::size_t value_bytes) {
  std::vector<Span<std::byte>> parts;
  std::size_t begin = 0;
  for (const std::size_t last : ends) {
    const std::size_t end = last * value_bytes;
    TROUPE_CHECK(begin <= end && end <= values.size());
    parts.push_back(values.subspan(begin, end - begin));
    begin = end;
  }
  TROUPE_CHECK_EQ(begin, values.size());
  return parts;
}

}  // namespace

WorkerGroup::WorkerGroup(Cluster cluster, GroupOptions options)
    : membership_(std::make_unique<Membership>(std::move(cluster), options)),
      state_(membership_->state()) {}
WorkerGroup::~WorkerGroup() { membership_.reset(); }  // its thread uses nothing of what follows

void WorkerGroup::join(const JoinTerms& terms) {
  JoinedLinks joined = membership_->join(terms);
  if (world_size() == 1) return;
  address_ = joined.address;
  links_ = std::move(joined.links);
  scratch_ = aligned_memory(kScratchBytes);
  const bool core_each = joined.workers_on_this_machine <= inspect_cores().usable;
  const std::chrono::microseconds no_spin(0);
  environment_.reset(new CallEnvironment{
      state_,
      links_,
      {scratch_.get(), kScratchBytes},
      core_each ? state_.options.spin : no_spin,
      core_each ? state_.options.arrival_spin : no_spin,
      [this](const Failure& failure) { membership_->report(failure); },
      [this](int peer, const std::string& what) { membership_->suspect(peer, what); }});
  shared_memory_ =
      make_shared_memory_group(*environment_, joined, Deadline::in(state_.options.start_timeout));
  state_.entered.store(0, std::memory_order_relaxed);  // what callers call counts from 1
}

int WorkerGroup::rank() const { return state_.cluster.rank; }
int WorkerGroup::world_size() const { return state_.cluster.world_size(); }
const std::string& WorkerGroup::task(int rank) const {
  return state_.cluster.members.at(static_cast<std::size_t>(rank)).task;
}
const GroupOptions& WorkerGroup::options() const { return state_.options; }

Call WorkerGroup::enter(Operation operation, DType dtype, std::size_t total_bytes, int root,
                        const Deadline& deadline) {
  TROUPE_CHECK(root >= 0 && root < world_size());
  if (!environment_) state_.raise_if_failed("");  // failed before or while joining
  TROUPE_CHECK(environment_ != nullptr && state_.phase() != GroupPhase::closed);
  FrameHeader header;
  header.operation = operation;
  header.dtype = dtype;
  header.total_bytes = total_bytes;
  header.root = static_cast<std::uint32_t>(root);
  if (shared_memory_) {
    header.sequence = state_.entered.load(std::memory_order_relaxed) + 1;  // that it will have
    shared_memory_->record(header);
  }
  return {*environment_, header, deadline};
}

template <class T>
void WorkerGroup::all_reduce(Span<T> values, const Deadline& deadline) {
  if (state_.is_alone()) return;
  const Reduction sum = sum_of<T>();
  const Span<std::byte> bytes = as_writable_bytes(values);
  const Traced traced("all_reduce", bytes.size());
  if (shared_memory_) return shared_memory_->all_reduce(bytes, sum, deadline);
  Call call = enter(Operation::all_reduce, sum.dtype, bytes.size(), 0, deadline);
  troupe::all_reduce(call, bytes, sum, state_.options, state_.cut);
}
template void WorkerGroup::all_reduce(Span<float>, const Deadline&);
template void WorkerGroup::all_reduce(Span<double>, const Deadline&);
template void WorkerGroup::all_reduce(Span<std::int64_t>, const Deadline&);

void WorkerGroup::all_reduce(Span<float> values, Span<float> errors, WireType wire,
                             const Deadline& deadline) {
  if (state_.is_alone()) return;
  const Rounding rounding = rounding_to(wire);
  rounded_.resize(values.size());
  const std::size_t bytes = rounded_.size() * sizeof(rounded_[0]);
  const Traced traced("all_reduce, compressed", bytes);
  Call call = enter(Operation::all_reduce, rounding.dtype, bytes, 0, deadline);
  compressed_allreduce(call, {values, errors, Span<std::uint16_t>(rounded_)}, rounding);
}

template <class T>
void WorkerGroup::reduce_scatter(Span<T> values, Span<const std::size_t> ends,
                                 const Deadline& deadline) {
  if (state_.is_alone()) return;
  if (world_size() > kMaxMesh) return all_reduce(values, deadline);
  const Reduction sum = sum_of<T>();
  const Span<std::byte> bytes = as_writable_bytes(values);
  const Traced traced("reduce_scatter", bytes.size());
  const auto parts = parts_of(bytes, ends, sizeof(T));
  TROUPE_CHECK_EQ(static_cast<int>(parts.size()), world_size());
  if (shared_memory_ && shared_memory_->reduce_scatter(bytes, parts, sum, deadline)) return;
  Call call = enter(Operation::reduce_scatter, sum.dtype, bytes.size(), 0, deadline);
  SliceOwners owners;
  for (int rank = 0; rank < world_size(); ++rank) {
    owners.push_back({rank, parts[static_cast<std::size_t>(rank)]});
  }
  direct_allreduce(call, owners, sum, state_.cut, Half::slices);
}
template void WorkerGroup::reduce_scatter(Span<float>, Span<const std::size_t>, const Deadline&);
template void WorkerGroup::reduce_scatter(Span<double>, Span<const std::size_t>, const Deadline&);

std::shared_ptr<std::byte> WorkerGroup::make_buffer(std::size_t bytes, const Deadline& deadline) {
  if (shared_memory_) {
    auto shared = make_shared_buffer(*shared_memory_, *environment_, bytes, deadline);
    if (shared) return shared;
  }
  auto own = aligned_memory(bytes);
  std::fill_n(own.get(), bytes, std::byte{0});
  return own;
}

void WorkerGroup::broadcast(Span<std::byte> bytes, int root, const Deadline& deadline) {
  if (state_.is_alone()) return;
  const Traced traced("broadcast", bytes.size());
  Call call = enter(Operation::broadcast, DType::bytes, bytes.size(), root, deadline);
  tree_broadcast(call, bytes, root);
}

std::vector<std::vector<std::byte>> WorkerGroup::all_gather(Span<const std::byte> mine,
                                                            const Deadline& deadline) {
  if (state_.is_alone()) return {std::vector<std::byte>(mine.begin(), mine.end())};
  const Traced traced("all_gather", mine.size());
  // Lengths differ by rank, so the header names none.
  Call call = enter(Operation::all_gather, DType::none, 0, 0, deadline);
  return ring_all_gather(call, mine, kMaxGatherBytes);
}

void WorkerGroup::all_gather(Span<std::byte> values, Span<const std::size_t> ends,
                             const Deadline& deadline) {
  if (state_.is_alone()) return;
  const Traced traced("all_gather", values.size());
  const auto parts = parts_of(values, ends, 1);
  TROUPE_CHECK_EQ(static_cast<int>(parts.size()), world_size());
  if (shared_memory_ && shared_memory_->all_gather(values, parts, deadline)) return;
  Call call = enter(Operation::all_gather, DType::bytes, values.size(), 0, deadline);
  ring_all_gather(call, parts);
}

std::vector<std::vector<std::byte>> WorkerGroup::gather(Span<const std::byte> mine) {
  if (state_.is_alone()) return {std::vector<std::byte>(mine.begin(), mine.end())};
  const Traced traced("gather", mine.size());
  const auto enter_gather = [this](const Deadline& deadline) {
    return enter(Operation::gather, DType::bytes, 0, 0, deadline);
  };
  return tree_gather(enter_gather, mine, state_.options.collective_timeout);
}

void WorkerGroup::meet(Operation operation, DType dtype, std::uint64_t total_bytes,
                       const Deadline& deadline) {
  if (state_.is_alone()) return;
  const Traced traced(operation == Operation::all_reduce ? "meet for all_reduce" : "barrier");
  if (shared_memory_) return shared_memory_->meet(operation, dtype, total_bytes, deadline);
  Call call = enter(operation, dtype, total_bytes, 0, deadline);
  dissemination_barrier(call);
}

void WorkerGroup::barrier(const Deadline& deadline, std::uint64_t announced) {
  if (announced > 0) return meet(Operation::all_reduce, DType::bytes, announced, deadline);
  meet(Operation::barrier, DType::none, 0, deadline);
}

void WorkerGroup::check(const std::string& where) const { state_.raise_if_failed(where); }

std::string WorkerGroup::local_address() const {
  for (const auto& [peer, link] : links_) {
    if (!link.is_local()) return link.local_address();
  }
  return address_;
}

std::uint64_t WorkerGroup::sent_bytes() const {
  std::uint64_t all = shared_memory_ ? shared_memory_->written_bytes() : 0;
  for (const auto& [peer, link] : links_) all += link.sent_bytes();
  return all;
}

void WorkerGroup::abort(const std::string& reason, int exit_code) noexcept {
  try {
    membership_->abort(reason, exit_code);
  } catch (...) {
    // Out of memory or descriptors while failing: the others see our connections close instead.
  }
}

void WorkerGroup::cancel(const std::string& cause, int lost) noexcept {
  try {
    state_.fail({FailureKind::peer_lost, lost, cause, "", kExitPeerLost});
  } catch (...) {
    // Out of memory: the deadlines of what it is in remain.
  }
}

int WorkerGroup::culprit() const {
  const auto failure = state_.failure();
  return failure && failure->culprit < world_size() ? failure->culprit : -1;
}

void WorkerGroup::close() {
  if (state_.phase() == GroupPhase::closed) return;
  const Deadline deadline = Deadline::in(state_.options.close_timeout);
  if (environment_) meet(Operation::close, DType::none, 0, deadline);
  membership_->leave(deadline);
  shared_memory_.reset();
  links_.clear();
}

}  // namespace troupe
