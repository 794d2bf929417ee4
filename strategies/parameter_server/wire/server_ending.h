// ServerEnding: how a server's process comes to its end. First the workers leave, then the chief
// reads what was counted and leaves, then this process ends; a signal waits for that once training
// has begun.
//
// Thread rule: the server's thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "troupe/core/options/cluster.h"
#include "troupe/distributed/membership/control_lines.h"
#include "troupe/strategies/parameter_server/wire/pace_keeper.h"

namespace troupe {

class ServerEnding {
 public:
  /// All but `patience` outlive this object. Ends by stopping `context`.
  ServerEnding(boost::asio::io_context& context, const Cluster& cluster,
               std::chrono::milliseconds patience, ControlLines& lines, PaceKeeper& keeper);

  /// From here to forget_signals() kStopSignals are requests; a second SIGINT ends the process.
  void watch_signals();
  void forget_signals();
  /// The signal that came first; 0: none.
  [[nodiscard]] int stop_signal() const { return stop_signal_; }
  /// Training is over: the workers have `patience` to leave.
  void stop_soon();
  /// Ends if nobody is left.
  void end_if_left();

 private:
  void await_signal();
  void on_signal(int number);
  void stop_job();
  void on_patience_over();
  void tell_statistics();
  [[nodiscard]] bool is_here(int rank) const {
    return lines_.has(rank) && !lines_.is_retired(rank);
  }

  boost::asio::io_context& context_;
  const Cluster& cluster_;
  const std::chrono::milliseconds patience_;
  ControlLines& lines_;
  PaceKeeper& keeper_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer limit_;
  bool statistics_told_ = false;
  int stop_signal_ = 0;
  std::chrono::steady_clock::time_point stopped_at_;
};

}  // namespace troupe
