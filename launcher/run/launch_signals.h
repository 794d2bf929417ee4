// What the kernel tells a launcher: that a child has ended, and that somebody wants the end.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <functional>

namespace troupe {

class LaunchSignals {
 public:
  /// `on_children`: SIGCHLD; `on_request`: SIGINT, SIGTERM or SIGHUP. Both run on `io`'s thread.
  LaunchSignals(boost::asio::io_context& io, std::function<void()> on_children,
                std::function<void(int number)> on_request);

  /// From here on signals come here, and orphans below this process become its children. SIGHUP
  /// stays ignored where it is (nohup).
  void start();
  /// As if the signal had come. What follows a request within 0.1 s is the same one.
  void request(int number);

 private:
  void wait();

  boost::asio::signal_set signals_;
  const std::function<void()> on_children_;
  const std::function<void(int number)> on_request_;
  std::chrono::steady_clock::time_point requested_at_{};
};

}  // namespace troupe
