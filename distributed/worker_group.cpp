#include "distributed/worker_group.h"

#include <utility>

#include "distributed/worker_group_impl.h"

namespace troupe {

WorkerGroup::WorkerGroup(Cluster cluster, GroupOptions options)
    : impl_(std::make_unique<Impl>(std::move(cluster), options)) {}
WorkerGroup::~WorkerGroup() = default;

void WorkerGroup::join(const JoinTerms& terms) { impl_->join(terms); }
int WorkerGroup::rank() const { return impl_->state().cluster.rank; }
int WorkerGroup::world_size() const { return impl_->state().cluster.world_size(); }
const std::string& WorkerGroup::task(int rank) const {
  return impl_->state().cluster.members.at(static_cast<std::size_t>(rank)).task;
}
const GroupOptions& WorkerGroup::options() const { return impl_->state().options; }

void WorkerGroup::all_reduce(Span<float> values, const Deadline& deadline) {
  impl_->all_reduce(values, deadline);
}
void WorkerGroup::all_reduce(Span<double> values, const Deadline& deadline) {
  impl_->all_reduce(values, deadline);
}
void WorkerGroup::all_reduce(Span<std::int64_t> values, const Deadline& deadline) {
  impl_->all_reduce(values, deadline);
}
void WorkerGroup::reduce(Span<float> values, int root, const Deadline& deadline) {
  impl_->reduce(values, root, deadline);
}
void WorkerGroup::reduce(Span<double> values, int root, const Deadline& deadline) {
  impl_->reduce(values, root, deadline);
}
void WorkerGroup::reduce(Span<std::int64_t> values, int root, const Deadline& deadline) {
  impl_->reduce(values, root, deadline);
}
void WorkerGroup::broadcast(Span<std::byte> bytes, int root, const Deadline& deadline) {
  impl_->broadcast(bytes, root, deadline);
}
std::vector<std::vector<std::byte>> WorkerGroup::all_gather(Span<const std::byte> mine,
                                                            const Deadline& deadline) {
  return impl_->all_gather(mine, deadline);
}
std::vector<std::vector<std::byte>> WorkerGroup::gather(Span<const std::byte> mine) {
  return impl_->gather(mine);
}
void WorkerGroup::barrier(const Deadline& deadline) {
  impl_->barrier(Operation::barrier, deadline);
}
std::shared_ptr<std::byte> WorkerGroup::make_buffer(std::size_t bytes, const Deadline& deadline) {
  return impl_->make_buffer(bytes, deadline);
}
void WorkerGroup::all_reduce(Span<float> values, Span<float> errors, WireType wire,
                             const Deadline& deadline) {
  impl_->all_reduce(values, errors, wire, deadline);
}
void WorkerGroup::announce(std::uint64_t total_bytes, const Deadline& deadline) {
  impl_->announce(total_bytes, deadline);
}
void WorkerGroup::check(const std::string& where) const { impl_->state().raise_if_failed(where); }
std::string WorkerGroup::local_address() const { return impl_->address(); }
std::uint64_t WorkerGroup::sent_bytes() const { return impl_->sent_bytes(); }
void WorkerGroup::abort(const std::string& reason, int exit_code) noexcept {
  try {
    impl_->abort(reason, exit_code);
  } catch (...) {
    // Out of memory or descriptors while failing: the others see our connections close instead.
  }
}
void WorkerGroup::close() { impl_->close(); }

}  // namespace troupe
