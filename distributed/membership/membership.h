// Membership: this process's place in a group: its listening socket, its end of the control plane
// and the thread that serves it. The data plane is WorkerGroup's.
//
// Thread rule: report() and suspect() from any thread, the rest from one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/membership/group_state.h"
#include "troupe/distributed/membership/join_terms.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/net/network_thread.h"

namespace troupe {

// ControlPlane: this process's end of the star. The chief's is in chief.h, every other worker's in
// member.h.
//
// Thread rule: the network thread only.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  /// Starts meeting the others; the outcome appears in GroupState.
  virtual void join() = 0;
  /// This process failed or found a failure; the group must learn of it.
  virtual void report(const Failure& failure) = 0;
  /// The data link to `peer` broke; the chief decides who is at fault.
  virtual void suspect(int peer, const std::string& what) = 0;
  /// This process has passed the closing barrier; `limit`: until all have.
  virtual void goodbye(const Deadline& limit) = 0;
};

class Membership {
 public:
  /// Binds this worker's listening socket.  Throws: as WorkerGroup's constructor.
  Membership(Cluster cluster, const GroupOptions& options);
  ~Membership() { network_.stop(); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  [[nodiscard]] GroupState& state() { return state_; }
  /// Meets the other workers; the sockets of this worker's data links. Alone it has none.
  /// Blocks and throws: as WorkerGroup::join.
  [[nodiscard]] JoinedLinks join(JoinTerms terms);

  /// Tells the group of a failure, or that the link to `peer` broke; the chief decides.
  void report(const Failure& failure);
  void suspect(int peer, const std::string& what);
  /// As WorkerGroup::abort, but may throw.
  void abort(const std::string& reason, int exit_code);
  /// All have passed the closing barrier; returns when all have said goodbye.
  /// Throws: TimeoutError at the deadline; the group's failure.
  void leave(const Deadline& deadline);

 private:
  void listen();

  GroupState state_;
  NetworkThread network_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<ControlPlane> plane_;  // null: alone, or not yet joining
};

}  // namespace troupe
