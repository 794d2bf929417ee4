// The part of a group that runs on this machine, from one start to its end: acts on what
// launch_policy.h says about every end, and ends only when nothing that it started is left.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/distributed/elastic/rendezvous.h"
#include "troupe/launcher/run/launch_guard.h"
#include "troupe/launcher/run/launch_losses.h"
#include "troupe/launcher/run/launch_options.h"
#include "troupe/launcher/run/launch_outcome.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_policy.h"
#include "troupe/launcher/run/launch_processes.h"
#include "troupe/launcher/run/launch_rounds.h"

namespace troupe {

class LaunchGroup {
 public:
  struct Events {
    /// All of it is being stopped, for a reason of its own; outcome() knows it.
    std::function<void()> on_failing;
    /// All processes have ended and their output is in the console.
    std::function<void()> on_end;
    /// What is still to be written will not be read, or a process does not die: do not wait.
    std::function<void()> on_hopeless;
  };

  /// All of the arguments must outlive the group.
  LaunchGroup(boost::asio::io_context& io, const LaunchOptions& options, LaunchGuard& guard,
              LaunchConsole& console, Events events);
  LaunchGroup(const LaunchGroup&) = delete;
  LaunchGroup& operator=(const LaunchGroup&) = delete;

  /// Throws: ConfigError, EnvironmentError.
  void start(const std::string& program, GroupStart start);
  /// SIGINT, SIGTERM or SIGHUP came to the launcher.
  void on_signal(int number);
  /// SIGCHLD did.
  void on_children();
  /// Stops it for a reason that is not its own: SIGKILL follows `number` after `limit`, or the
  /// grace period if that is shorter.
  void stop(int number, std::chrono::milliseconds limit);

  [[nodiscard]] const LaunchProcesses& processes() const { return processes_; }
  [[nodiscard]] const LaunchOutcome& outcome() const { return outcome_; }

 private:
  /// The evaluator is no part of this: its failure changes no phase, and the launcher waits for it
  /// as long as nothing failed.
  enum class Phase {
    running,
    /// Others have the time to show what they know: after a worker ended with kExitPeerLost, which
    /// says that another one is the cause, or after a signal killed a process that the others are
    /// about to miss.
    suspecting,
    stopping,  // after a failure or a signal: SIGTERM was sent
    killing,   // SIGKILL was sent
    draining,  // all processes ended, and what is left is output
    reported
  };
  using Timer = boost::asio::steady_timer;

  void make_rounds(const GroupStart& start);
  void on_verdict(const RoundVerdict& verdict, int last);
  void on_end(LaunchedWorker& process);
  void on_evaluator_end(LaunchedWorker& evaluator);
  void on_remote_end(int index, const EndedProcess& process);
  void settle();
  void suspect(LaunchedWorker& victim);
  void suspect_last();
  std::vector<LaunchedWorker*> stop_unresponsive();
  void await_echo();
  void limit_closing();
  void end_overdue(LaunchRole role);
  void fail();
  void begin_stop(int signal_number, std::chrono::milliseconds limit);
  void kill_all();
  void finish_if_all_ended();
  void limit_draining();
  void close_streams();

  boost::asio::io_context& io_;
  const LaunchOptions& options_;
  LaunchConsole& console_;
  const Events events_;
  LaunchPolicy policy_;
  LaunchOutcome outcome_;
  std::unique_ptr<LaunchRounds> rounds_;  // of an elastic group
  LaunchProcesses processes_;
  LaunchLosses losses_;
  Timer suspicion_timer_{io_};  // ends the phase suspecting
  Timer grace_timer_{io_};      // between SIGTERM and SIGKILL
  Timer kill_timer_{io_};
  Timer drain_timer_{io_};
  Timer closing_timer_{io_};  // for processes no longer needed to end by themselves
  Timer overdue_timer_{io_};  // and then by SIGTERM

  Phase phase_ = Phase::running;
  bool closing_limited_ = false;
  bool is_ordered_ = false;  // to stop, and no signal has come since
  bool told_twice_ = false;  // a signal came while processes were being stopped
};

}  // namespace troupe
