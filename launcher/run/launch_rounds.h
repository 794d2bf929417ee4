// LaunchRounds: what the workers of an elastic group on this machine are given by their launcher:
// a line each to the issuer of rounds, which is here (launch_rendezvous.h) or on node 0
// (launch_round_relay.h).
#pragma once

#include "troupe/core/options/cluster.h"
#include "troupe/core/unique_fd.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {

class LaunchRounds {
 public:
  virtual ~LaunchRounds() = default;
  /// Makes the line of a worker that is about to start and listens there; returns its end. `joins`:
  /// a group that trains, in the place of a process that has ended.  Throws: EnvironmentError.
  [[nodiscard]] virtual UniqueFd open_line(int index, const Endpoint& listens, bool joins) = 0;
  /// The process has ended. Returns whether the launcher is to judge that: it means something, and
  /// nobody else judges it. What follows is done by carry_out().
  [[nodiscard]] virtual bool ended(int index, const EndedProcess& process) = 0;
  /// The process that has ended had left the others, because it was told to end.
  [[nodiscard]] virtual bool has_left(int index) const = 0;
  /// The chief of the present round, if it was lost and no round has followed: what it had to do
  /// after the training is undone. Null: it was not, or another launcher knows.
  [[nodiscard]] virtual const EndedProcess* lost_chief() const { return nullptr; }
  /// The group is to save and stop.
  virtual void stop() = 0;
  virtual void carry_out() = 0;
  /// Starts a lost worker of another machine again; false: it is this machine's.
  [[nodiscard]] virtual bool start_elsewhere(int index) = 0;
  /// Whether the group is still there when no worker runs here. `is_over`: training is, as far as
  /// this launcher knows.
  [[nodiscard]] virtual bool goes_on(bool is_over) const = 0;
};

}  // namespace troupe
