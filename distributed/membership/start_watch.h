// StartWatch: the time within which all processes must have connected. It logs at intervals which
// ones are missing, and notifies the owner when the time is over.
//
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <string>

namespace troupe {

class StartWatch {
 public:
  /// `whom`: who is waited for, "" for nobody; `on_over`: the limit has passed.
  StartWatch(boost::asio::io_context& context, std::chrono::milliseconds limit,
             std::function<std::string()> whom, std::function<void()> on_over);

  /// From now on, or anew.
  void begin();
  /// A little longer: what is known elsewhere may still arrive.
  void extend(std::chrono::milliseconds time);
  /// Everybody is here.
  void end();

 private:
  void log_progress();

  const std::chrono::milliseconds limit_;
  const std::function<std::string()> whom_;
  const std::function<void()> on_over_;
  boost::asio::steady_timer over_;
  boost::asio::steady_timer progress_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace troupe
