// GroupState: what the network thread and the thread that calls collectives share.
//
// Thread rule: every function may be called from any thread. The first failure stays.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/core/options/cluster.h"
#include "troupe/distributed/group/topology.h"
#include "troupe/distributed/group/tree_cut.h"
#include "troupe/distributed/membership/credentials.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/net/link.h"
#include "troupe/distributed/net/network_thread.h"

namespace troupe {

/// How far a group has come; it only moves forward.
enum class GroupPhase { joining, started, closed };

/// What join() hands from the network thread to the calling thread.
struct JoinedLinks {
  std::map<int, Link> links;  // by peer
  int workers_on_this_machine = 1;
  std::string address;  // numeric: where the others reach this worker
  std::string no_unix;  // why a link within this machine is TCP; "": none is
};

class GroupState {
 public:
  /// Throws: as credentials_of() and cut_of().
  GroupState(Cluster cluster_in, GroupOptions options_in)
      : cluster(std::move(cluster_in)),
        options(options_in),
        cut(cut_of(cluster, options)),
        credentials(credentials_of(cluster, options)) {}

  const Cluster cluster;
  const GroupOptions options;
  const TreeCut cut;
  const Credentials credentials;
  /// Whether bytes of this group may be sent outside this machine.
  [[nodiscard]] bool may_leave_machine() const { return credentials.encrypt || options.insecure; }

  /// Records the failure unless there is one, and wakes whoever waits or polls. False: had one.
  bool fail(const Failure& failure);
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] std::optional<Failure> failure() const;
  /// Waits for a failure at most `limit`; true when there is one.
  bool wait_failed(std::chrono::milliseconds limit);
  /// Throws the recorded failure, if any; see raise().
  void raise_if_failed(const std::string& where) const;
  /// With one worker a collective has nothing to do.  Throws: what failed before.
  [[nodiscard]] bool is_alone() const {
    if (cluster.world_size() > 1) return false;
    raise_if_failed("");
    return true;
  }

  void advance(GroupPhase phase);
  [[nodiscard]] GroupPhase phase() const;
  /// Waits until `phase` is reached or something failed; false when the deadline came first.
  bool wait_for(GroupPhase phase, const Deadline& deadline);

  /// Written by the network thread; from GroupPhase::started on the calling thread's.
  JoinedLinks joined;
  /// Collectives that this worker has entered; heartbeats carry it to the chief.
  std::atomic<std::uint64_t> entered{0};
  /// Readable once failed() is true.
  [[nodiscard]] int wake_fd() const { return wake_.fd(); }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  GroupPhase phase_ = GroupPhase::joining;
  std::atomic<bool> failed_{false};
  WakeEvent wake_;
};

}  // namespace troupe
