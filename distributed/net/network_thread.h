// NetworkThread: the one thread that owns the io_context and every control connection.
//
// Thread rule: everything that lives on the io_context is touched by this thread alone; others
// hand work over with boost::asio::post(context(), ...).
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <thread>

#include "troupe/core/unique_fd.h"

namespace troupe {

/// Wakes a thread that sleeps in ::poll, from any other thread (an eventfd).
/// Once set it stays set: readable for every later poll.
class WakeEvent {
 public:
  /// Throws: EnvironmentError when the process has no file descriptor left.
  WakeEvent();

  void set() noexcept;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class NetworkThread {
 public:
  NetworkThread();
  /// Stops the thread if stop() has not.
  ~NetworkThread();
  NetworkThread(const NetworkThread&) = delete;
  NetworkThread& operator=(const NetworkThread&) = delete;

  [[nodiscard]] boost::asio::io_context& context() { return context_; }

  /// Starts the thread. `on_error` gets the text of an exception that a handler let through; it
  /// runs on the network thread, which then continues.
  void start(std::function<void(const std::string&)> on_error);

  /// Ends the thread and waits for it; handlers that have not run are dropped.
  void stop() noexcept;

 private:
  boost::asio::io_context context_{1};  // one thread: no lock contention inside Asio
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace troupe
