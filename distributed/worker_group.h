// WorkerGroup: the processes that train together, and the collectives they call.
//
// Two planes. The *control plane* is a star: every worker keeps one connection to the chief, owned
// by this object's network thread; it carries the hello, heartbeats, the abort frame and the
// goodbye. The chief is the arbiter: the first failure that reaches it is the reason every worker
// reports. The *data plane* is a set of links between workers, all with all where there are few
// (distributed/group/topology.h); the thread that calls a collective drives them itself, so a
// collective costs no hand-over between threads. Workers that are all on one machine share memory,
// and sum and meet there (distributed/shared_memory/shared_memory_group.h).
//
// Thread rule: collectives from one thread at a time; abort() from any thread.
// Additions are made in the order of ranks, bracketed as a binary tree (docs/algorithms.md; with
// GroupOptions::virtual_replicas as a tree over those), whatever the length, transport and
// algorithm: results are bitwise repeatable, and equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/options/group_options.h"
#include "troupe/core/span.h"
#include "troupe/distributed/collectives/rounding.h"
#include "troupe/distributed/membership/join_terms.h"
#include "troupe/distributed/net/link.h"

namespace troupe {

class Call;
class GroupState;
class Membership;
class SharedMemoryGroup;
enum class DType : std::uint8_t;
enum class Operation : std::uint8_t;
struct CallEnvironment;

/// Membership of one process in one group.
class WorkerGroup {
 public:
  /// Binds this worker's listening socket, so that a taken port is found before a model is built.
  /// Blocks: until its own name is known, at most start_timeout.  Throws: EnvironmentError (port
  /// taken, address not ours), RendezvousError (name unknown), ConfigError (no secret).
  WorkerGroup(Cluster cluster, GroupOptions options);
  /// Closes the sockets; never communicates, never throws. close() is the collective ending.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  /// Meets the other workers; on return every rank is connected.
  /// Collective: yes.  Blocks: at most start_timeout.
  /// Throws: RendezvousError naming the tasks that are missing; ConfigError where cluster, terms or
  /// protocol differ; PeerFailed, PeerLost.
  void join(const JoinTerms& terms);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  /// "worker/1"
  [[nodiscard]] const std::string& task(int rank) const;
  [[nodiscard]] const GroupOptions& options() const;

  /// Sums `values` over all workers, in place; every rank ends with bit-identical values. T is
  /// float, double or std::int64_t.
  /// Shapes: [n], the same n on every rank.  Collective: yes.  Blocks: at most `deadline`.
  /// Throws: PeerLost, PeerFailed, TimeoutError, DesyncError.
  /// Cost: see docs/algorithms.md.
  template <class T>
  void all_reduce(Span<T> values, const Deadline& deadline);

  /// Memory for values that are summed in every step, [bytes], zeroed and aligned to 64. Where the
  /// workers share memory, all_reduce of values inside it copies nothing. It may outlive the group.
  /// Shapes: the same `bytes` on every rank.  Collective: yes.  Blocks: at most `deadline`.
  /// Throws: as all_reduce.
  [[nodiscard]] std::shared_ptr<std::byte> make_buffer(std::size_t bytes, const Deadline& deadline);

  /// The same with 16 bits per value on the wire, half of the bytes. Every addition is made in
  /// float32, and its result rounded once to be sent on. What the rounding took from the values
  /// that this worker sent is in `errors` afterwards; what is there before is added to its values:
  /// given back in the next call, nothing is lost in the long run. With one worker nothing is
  /// rounded. Shapes: values [n], errors [n].  Source: see compressed_allreduce
  /// (distributed/collectives/collectives.h).
  void all_reduce(Span<float> values, Span<float> errors, WireType wire, const Deadline& deadline);

  /// Copies `root`'s bytes to every rank (binomial tree).  Shapes: the same n on every rank.
  void broadcast(Span<std::byte> bytes, int root, const Deadline& deadline);

  /// Every rank's bytes, by rank, for short ones: lengths may differ (each at most
  /// kMaxGatherBytes).
  [[nodiscard]] std::vector<std::vector<std::byte>> all_gather(Span<const std::byte> mine,
                                                               const Deadline& deadline);
  static constexpr std::size_t kMaxGatherBytes = std::size_t{16} << 20;
  /// The first half of all_reduce: this rank's part of `values`, as in all_gather, becomes its sum
  /// over all ranks, with the bits that all_reduce gives it; the other parts are used up. T is
  /// float or double. Values inside make_buffer's memory are added where they lie, where the
  /// workers share memory. Beyond kMaxMesh workers (distributed/group/topology.h) it is an
  /// all_reduce. Shapes: values [n], ends [world_size] in values, not descending, the last one n;
  /// the same on every rank.  Collective: yes.  Blocks: at most `deadline`.  Throws: as all_reduce.
  template <class T>
  void reduce_scatter(Span<T> values, Span<const std::size_t> ends, const Deadline& deadline);
  /// Every rank's part of `values` to all ranks, in place: rank k's ends at ends[k], where that of
  /// rank k+1 begins. Values inside make_buffer's memory are copied once, to the peers, where the
  /// workers share memory.
  /// Shapes: values [n], ends [world_size], not descending, the last one n; the same on every rank.
  /// Collective: yes.  Blocks: at most `deadline`.  Throws: as all_reduce.
  void all_gather(Span<std::byte> values, Span<const std::size_t> ends, const Deadline& deadline);
  /// Every rank's bytes at rank 0, by rank, however long; nothing elsewhere.
  /// Collective: yes.  Blocks: at most collective_timeout for each MiB of every rank's.
  /// Throws: as all_reduce.
  [[nodiscard]] std::vector<std::vector<std::byte>> gather(Span<const std::byte> mine);

  /// Returns when every rank has called it. `announced`: bytes that another library is to sum over
  /// the workers next; who is late, lost or in another collective is then named as by all_reduce of
  /// so many. No values move.  Collective: yes.  Blocks: at most `deadline`.  Throws: as
  /// all_reduce.
  void barrier(const Deadline& deadline, std::uint64_t announced = 0);
  /// For waits that this object does not make: throws the failure that the group has learnt of, if
  /// any. `where` is a sentence about what this worker was doing.
  /// Thread: any.  Blocks: no.  Throws: PeerLost, PeerFailed, TimeoutError, DesyncError.
  void check(const std::string& where) const;

  /// The numeric address at which the others reach this worker; loopback when it is alone.
  [[nodiscard]] std::string local_address() const;
  /// What collectives of this worker have sent so far, with their headers, or written for others
  /// to read where they share memory.
  [[nodiscard]] std::uint64_t sent_bytes() const;

  /// Tells the group that this worker failed and why; the others raise PeerFailed with `reason` and
  /// `exit_code` (1 to 255). Best effort, bounded by a second; never throws. Collectives fail then.
  void abort(const std::string& reason, int exit_code) noexcept;

  /// Ends this worker's part, as the worker of rank `lost` (-1: not known) is gone: what it is in,
  /// and what it enters, throws PeerLost with `cause`. The others are not told.  Thread: any.
  /// Blocks: no.
  void cancel(const std::string& cause, int lost) noexcept;
  /// The rank that the group's failure names; -1: there is none.  Thread: any.
  [[nodiscard]] int culprit() const;

  /// Collective goodbye. Afterwards the object can only be destroyed.
  /// Blocks: at most close_timeout, and a second more for the chief's verdict.
  void close();

 private:
  [[nodiscard]] Call enter(Operation operation, DType dtype, std::size_t total_bytes, int root,
                           const Deadline& deadline);
  void meet(Operation operation, DType dtype, std::uint64_t total_bytes, const Deadline& deadline);

  std::unique_ptr<Membership> membership_;
  GroupState& state_;                  // membership_'s
  std::map<int, Link> links_;          // by peer
  std::string address_ = "127.0.0.1";  // as the others know it
  std::shared_ptr<std::byte> scratch_;
  std::vector<std::uint16_t> rounded_;                // compressed values; kept from call to call
  std::unique_ptr<CallEnvironment> environment_;      // null: alone, or not joined
  std::unique_ptr<SharedMemoryGroup> shared_memory_;  // null: the workers share none
};

}  // namespace troupe
