// LaunchLosses: workers that training goes on without. Says so, and has them started again after a
// pause, as often as the policy allows.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/launcher/run/launch_outcome.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_policy.h"

namespace troupe {

class LaunchLosses {
 public:
  struct Events {
    std::function<bool()> is_running;  // nothing is being stopped
    std::function<void(int index)> on_expected;
    std::function<void(int index)> on_start_again;
  };
  /// All of the arguments outlive it.
  LaunchLosses(boost::asio::io_context& io, LaunchConsole& console, LaunchPolicy& policy,
               LaunchOutcome& outcome, Events events);

  /// `worker`: as the outcome knows it; null: it ran on another node. `is_elastic`: any worker's
  /// end is that of the training.
  void add(const EndedProcess& process, const LaunchedWorker* worker, int index,
           Consequence consequence, bool is_elastic);
  /// A worker's node has come again.
  void start_returned(int index);
  /// Node 0 has decided it.
  void start_ordered(int index);

 private:
  using Timer = boost::asio::steady_timer;

  void tell(std::size_t loss);
  void start_again(int index);

  boost::asio::io_context& io_;
  LaunchConsole& console_;
  LaunchPolicy& policy_;
  LaunchOutcome& outcome_;
  const Events events_;
  std::vector<std::unique_ptr<Timer>> pauses_;
};

}  // namespace troupe
