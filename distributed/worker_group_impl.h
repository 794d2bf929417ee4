// What is behind WorkerGroup: the state of one group, its network thread, its links, and the memory
// that it shares. Public methods with their contracts are in worker_group.h; here is which
// algorithm serves which of them.
#pragma once

#include <boost/asio/post.hpp>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "core/check.h"
#include "distributed/collectives/call.h"
#include "distributed/collectives/collectives.h"
#include "distributed/membership/control_plane.h"
#include "distributed/membership/group_state.h"
#include "distributed/shared_memory/board_maker.h"
#include "distributed/worker_group.h"
#include "net/acceptor.h"
#include "net/link.h"
#include "net/network_thread.h"

namespace troupe {

class WorkerGroup::Impl {
 public:
  Impl(Cluster cluster, const GroupOptions& options);
  ~Impl() { network_.stop(); }

  void join(const JoinTerms& given);
  void abort(const std::string& reason, int exit_code);
  void close();

  template <class T>
  void all_reduce(Span<T> values, const Deadline& deadline) {
    if (world_size() == 1) return check_alone();
    const Reduction sum = sum_of<T>();
    const Span<std::byte> bytes = as_writable_bytes(values);
    if (board_) return board_->all_reduce(bytes, sum, deadline);
    Call call = enter(Operation::all_reduce, sum.dtype, bytes.size(), 0, deadline);
    troupe::all_reduce(call, bytes, sum, state_.options);
  }
  void all_reduce(Span<float> values, Span<float> errors, WireType wire, const Deadline& deadline) {
    if (world_size() == 1) return check_alone();
    const Rounding rounding = rounding_to(wire);
    wire_.resize(values.size());
    Call call =
        enter(Operation::all_reduce, rounding.dtype, wire_.size() * sizeof(wire_[0]), 0, deadline);
    compressed_allreduce(call, {values, errors, Span<std::uint16_t>(wire_)}, rounding);
  }
  template <class T>
  void reduce(Span<T> values, int root, const Deadline& deadline) {
    TROUPE_CHECK(root >= 0 && root < world_size());
    if (world_size() == 1) return check_alone();
    const Reduction sum = sum_of<T>();
    const Span<std::byte> bytes = as_writable_bytes(values);
    Call call = enter(Operation::reduce, sum.dtype, bytes.size(), root, deadline);
    tree_reduce(call, bytes, root, sum);
  }
  void broadcast(Span<std::byte> bytes, int root, const Deadline& deadline) {
    TROUPE_CHECK(root >= 0 && root < world_size());
    if (world_size() == 1) return check_alone();
    Call call = enter(Operation::broadcast, DType::bytes, bytes.size(), root, deadline);
    tree_broadcast(call, bytes, root);
  }
  std::vector<std::vector<std::byte>> all_gather(Span<const std::byte> mine,
                                                 const Deadline& deadline) {
    if (world_size() == 1) {
      check_alone();
      return {std::vector<std::byte>(mine.begin(), mine.end())};
    }
    // Lengths differ by rank, so the header names none.
    Call call = enter(Operation::all_gather, DType::none, 0, 0, deadline);
    return ring_all_gather(call, mine, kMaxGatherBytes);
  }
  std::vector<std::vector<std::byte>> gather(Span<const std::byte> mine) {
    if (world_size() == 1) {
      check_alone();
      return {std::vector<std::byte>(mine.begin(), mine.end())};
    }
    const auto enter_gather = [this](const Deadline& deadline) {
      return enter(Operation::gather, DType::bytes, 0, 0, deadline);
    };
    return tree_gather(enter_gather, mine, state_.options.collective_timeout);
  }
  void barrier(Operation operation, const Deadline& deadline) {
    if (world_size() == 1) return check_alone();
    if (board_) return board_->meet(operation, DType::none, 0, deadline);
    Call call = enter(operation, DType::none, 0, 0, deadline);
    dissemination_barrier(call);
  }

  void announce(std::uint64_t total_bytes, const Deadline& deadline) {
    if (world_size() == 1) return check_alone();
    if (board_) return board_->meet(Operation::all_reduce, DType::bytes, total_bytes, deadline);
    Call call = enter(Operation::all_reduce, DType::bytes, total_bytes, 0, deadline);
    dissemination_barrier(call);
  }

  [[nodiscard]] std::shared_ptr<std::byte> make_buffer(std::size_t bytes, const Deadline& deadline);

  [[nodiscard]] const GroupState& state() const { return state_; }
  [[nodiscard]] std::uint64_t sent_bytes() const {
    std::uint64_t all = board_ ? board_->written_bytes() : 0;
    for (const auto& [peer, link] : links_) all += link.sent_bytes();
    return all;
  }
  [[nodiscard]] std::string address() const {
    for (const auto& [peer, link] : links_) {
      if (!link.is_local()) return link.local_address();
    }
    return address_;
  }

 private:
  struct AlignedDelete {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, kScratchAlignment); }
  };
  static constexpr std::align_val_t kScratchAlignment{64};

  [[nodiscard]] int world_size() const { return state_.cluster.world_size(); }
  void check_alone() const { state_.raise_if_failed(""); }
  void listen();
  [[nodiscard]] Neighbourhood make_links();
  Call enter(Operation operation, DType dtype, std::size_t total_bytes, int root,
             const Deadline& deadline);
  void tell(const Failure& failure) {
    boost::asio::post(network_.context(), [this, failure] { plane_->report(failure); });
  }

  GroupState state_;
  NetworkThread network_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<ControlPlane> plane_;
  LinkContext link_context_;
  std::map<int, Link> links_;
  std::string address_ = "127.0.0.1";  // as the others know it
  std::unique_ptr<std::byte[], AlignedDelete> scratch_;
  std::vector<std::uint16_t> wire_;  // compressed values; kept from call to call
  std::optional<CallEnvironment> environment_;
  std::unique_ptr<Board> board_;  // where the workers share memory
};

}  // namespace troupe
