// The running group: starts the processes, forwards signals, acts on what launch_policy.h says
// about every end, and ends only when nothing that it started is left.
//
// Phases: *running*; *suspecting*, while others have the time to show what they know: after a
// worker ended with kExitPeerLost, which says that another one is the cause, or after a signal
// killed a process that the others are about to miss; *stopping*, after a failure or a signal;
// *reporting*, when all processes ended and what is left is output. The evaluator is no part of
// this: its failure changes no phase, and the launcher waits for it as long as nothing failed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/launch.h"
#include "launcher/launch_environment.h"
#include "launcher/launch_guard.h"
#include "launcher/launch_output.h"
#include "launcher/launch_policy.h"
#include "launcher/launch_worker.h"

namespace troupe {

class LaunchGroup {
 public:
  explicit LaunchGroup(const LaunchOptions& options);
  /// See launch().
  [[nodiscard]] int run();

 private:
  enum class Phase { running, suspecting, stopping, reporting };

  /// A worker that training goes on without. `said`: the log knows.
  struct Loss {
    const LaunchedWorker* worker = nullptr;
    std::string now;    // what follows from it: "training goes on without it"
    std::string later;  // the same in the report
    bool said = false;
  };

  void make_log_folder() const;
  LaunchedWorker& make_process(LaunchRole role, int index, LaunchedWorker::Log::Start log);
  [[nodiscard]] std::string log_path(const std::string& name) const;
  void start_all();
  void start_process(LaunchedWorker& process, int listen_fd);
  void announce(int usable_cores);
  void say(const std::string& sentence);

  void wait_for_signal();
  void on_signal(int number);
  void reap_children();
  void on_end(LaunchedWorker& process);
  void on_evaluator_end(LaunchedWorker& evaluator);
  void on_loss(LaunchedWorker& worker, Consequence consequence);
  void tell_loss(std::size_t which);
  void start_again(int rank);
  void suspect(LaunchedWorker& victim);
  void await_echo();
  void limit_closing();
  void end_overdue(LaunchRole role);
  void begin_stop(int signal_number);
  void kill_all();
  [[nodiscard]] int running(LaunchRole role) const;
  [[nodiscard]] int trainers_running() const;  // workers and servers

  void finish_if_all_ended();
  void limit_draining();
  void close_streams();
  void sweep_strays();
  void report();
  void report_unclean_stops();
  [[nodiscard]] int exit_code() const;

  void flush();

  LaunchOptions options_;
  LaunchGuard guard_;  // first: it must not inherit what the others open
  LaunchPolicy policy_;
  std::string program_;
  LaunchEnvironment environment_;
  boost::asio::io_context io_{1};
  boost::asio::signal_set signals_{io_};
  boost::asio::steady_timer phase_timer_{io_};  // ends the present phase
  boost::asio::steady_timer closing_timer_{io_};
  boost::asio::steady_timer flush_timer_{io_};
  OutputSink out_{1};
  OutputSink err_{2};
  bool flush_armed_ = false;
  std::vector<std::unique_ptr<LaunchedWorker>> processes_;          // as they were started
  std::vector<std::unique_ptr<boost::asio::steady_timer>> pauses_;  // before something is done

  Phase phase_ = Phase::running;
  const LaunchedWorker* culprit_ = nullptr;
  const LaunchedWorker* first_victim_ = nullptr;      // ended with kExitPeerLost
  const LaunchedWorker* failed_evaluator_ = nullptr;  // before anything stopped it
  std::string unresponsive_;                          // who still ran when the victims gave up
  std::vector<Loss> losses_;
  bool closing_limited_ = false;
  bool servers_overdue_ = false;  // a server did not end after the training
  int interrupted_by_ = 0;
  bool told_twice_ = false;  // a signal came while processes were being stopped
  bool killing_ = false;
  bool reported_ = false;
  const bool one_output_;  // stdout and stderr are the same file: 2>&1
};

}  // namespace troupe
