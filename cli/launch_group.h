// The running group: starts the workers, forwards signals, decides which failure was the first
// cause, and ends only when nothing that it started is left.
//
// Phases: *running*; *suspecting*, after a worker ended with kExitPeerLost, which says that another
// one is the cause and may be about to show; *stopping*, after a failure or a signal; *reporting*,
// when all workers ended and what is left is output. The evaluator is no part of this: its failure
// changes no phase, and the launcher waits for it as long as nothing failed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch.h"
#include "cli/launch_guard.h"
#include "cli/launch_output.h"
#include "cli/launch_worker.h"

namespace troupe {

class LaunchGroup {
 public:
  explicit LaunchGroup(const LaunchOptions& options);
  /// See launch().
  [[nodiscard]] int run();

 private:
  enum class Phase { running, suspecting, stopping, reporting };

  void make_processes();
  void make_process(LaunchedWorker::Role role, int rank);
  [[nodiscard]] std::string log_path(const std::string& name) const;
  void start_workers(const std::string& program);
  void say(const std::string& sentence);

  void wait_for_signal();
  void on_signal(int number);
  void reap_children();
  void on_worker_end(LaunchedWorker& worker);
  void on_evaluator_end(LaunchedWorker& evaluator);
  void suspect(LaunchedWorker& victim);
  void begin_stop(int signal_number);
  void kill_all();
  [[nodiscard]] bool any_running() const;
  [[nodiscard]] bool workers_running() const;

  void finish_if_all_ended();
  void limit_draining();
  void sweep_strays();
  void report();
  void report_culprit(const LaunchedWorker& culprit);
  [[nodiscard]] int exit_code() const;

  void flush();

  LaunchOptions options_;
  LaunchGuard guard_;  // first: it must not inherit what the others open
  boost::asio::io_context io_{1};
  boost::asio::signal_set signals_{io_};
  boost::asio::steady_timer phase_timer_{io_};  // ends the present phase
  boost::asio::steady_timer flush_timer_{io_};
  OutputSink out_{1};
  OutputSink err_{2};
  bool flush_armed_ = false;
  std::vector<std::unique_ptr<LaunchedWorker>> workers_;  // by rank; the evaluator is last

  Phase phase_ = Phase::running;
  const LaunchedWorker* culprit_ = nullptr;
  const LaunchedWorker* first_victim_ = nullptr;      // ended with kExitPeerLost
  const LaunchedWorker* failed_evaluator_ = nullptr;  // before anything stopped it
  std::string unresponsive_;                          // who still ran when the victims gave up
  int interrupted_by_ = 0;
  bool killing_ = false;
  bool reported_ = false;
  const bool one_output_;  // stdout and stderr are the same file: 2>&1
};

}  // namespace troupe
