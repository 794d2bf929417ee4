// ServerEnding: how a server's process comes to its end. First the workers leave, then the chief
// reads what was counted and leaves, then this process ends; SIGTERM waits for that.
//
// Thread rule: the server's thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "distributed/membership/control_lines.h"
#include "distributed/membership/failure_broadcast.h"
#include "distributed/membership/heartbeats.h"
#include "options/cluster.h"
#include "servers/wire/pace_keeper.h"

namespace troupe {

class ServerEnding {
 public:
  /// All but `patience` outlive this object. Ends by stopping `context`.
  ServerEnding(boost::asio::io_context& context, const Cluster& cluster,
               std::chrono::milliseconds patience, ControlLines& lines,
               const Heartbeats& heartbeats, FailureBroadcast& failures, PaceKeeper& keeper);

  void watch_sigterm();
  void forget_sigterm();
  [[nodiscard]] bool is_by_sigterm() const { return is_by_sigterm_; }
  /// Training is over: the workers have `patience` to leave.
  void stop_soon();
  /// Ends if nobody is left.
  void end_if_left();

 private:
  void on_sigterm();
  void on_patience_over();
  void tell_statistics();
  [[nodiscard]] bool is_here(int rank) const {
    return lines_.has(rank) && !heartbeats_.is_retired(rank);
  }

  boost::asio::io_context& context_;
  const Cluster& cluster_;
  const std::chrono::milliseconds patience_;
  ControlLines& lines_;
  const Heartbeats& heartbeats_;
  FailureBroadcast& failures_;
  PaceKeeper& keeper_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer limit_;
  bool statistics_told_ = false;
  bool is_by_sigterm_ = false;
};

}  // namespace troupe
