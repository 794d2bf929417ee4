// The processes of a group: makes and starts them, knows which still run, and reaps and kills what
// they leave behind. What an end means for the others is not decided here.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "troupe/core/unique_fd.h"
#include "troupe/launcher/run/launch_environment.h"
#include "troupe/launcher/run/launch_guard.h"
#include "troupe/launcher/run/launch_options.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_policy.h"
#include "troupe/launcher/run/launch_rounds.h"
#include "troupe/launcher/run/launch_start.h"
#include "troupe/launcher/run/launch_worker.h"
#include "troupe/report/progress_bar.h"

namespace troupe {

class LaunchProcesses {
 public:
  /// All of the arguments must outlive the processes. `on_closed` is called when both streams of a
  /// process have ended.
  LaunchProcesses(boost::asio::io_context& io, const LaunchOptions& options, LaunchGuard& guard,
                  LaunchConsole& console, std::function<void()> on_closed);

  /// Renames the logs of a former run, opens new ones and starts `program` as all of this machine's
  /// processes. `rounds` of an elastic group outlives them. Throws: ConfigError, EnvironmentError.
  void start_all(const std::string& program, GroupStart start, LaunchRounds* rounds = nullptr);
  /// Tells the servers that a worker is lost and does not come again: one that waits for it before
  /// training begins waits no longer.
  void give_up(int rank) const;
  /// A worker that ended is to be started again.
  void expect_again(int rank) { expected_again_.insert(rank); }
  /// Another process for a worker that ended. Throws: EnvironmentError.
  void start_again(int rank);

  /// Those that have ended since the last call. Reaps every other child, too.
  [[nodiscard]] std::vector<LaunchedWorker*> reap() const;
  /// To the process groups of all that run.
  void signal(int number) const;
  /// Reads on where the console was full and is no longer.
  void resume() const;
  /// Gives up what may still come from streams that stay open.
  void close_streams() const;
  /// Kills and reaps what the workers left behind outside their process groups, the children that
  /// those leave to us included.
  void sweep_strays() const;

  /// As they were started; a process that took another's place stands beside it.
  [[nodiscard]] const std::vector<std::unique_ptr<LaunchedWorker>>& all() const {
    return processes_;
  }
  /// The latest process of a worker; null: there is none.
  [[nodiscard]] LaunchedWorker* last_of(int rank) const;
  [[nodiscard]] int running(LaunchRole role) const;
  [[nodiscard]] int trainers_running() const;  // workers and servers
  [[nodiscard]] bool streams_open() const;
  /// Each once; of one that was started again, as it is now.
  [[nodiscard]] std::vector<ProcessStatus> statuses() const;

 private:
  void make_all(int first_rank);
  LaunchedWorker& make(LaunchRole role, int index);
  void start(LaunchedWorker& process, const LaunchListener* listener, bool joins = false);
  void announce(int usable_cores) const;

  boost::asio::io_context& io_;
  const LaunchOptions& options_;
  LaunchGuard& guard_;
  LaunchConsole& console_;
  std::function<void()> on_closed_;
  std::string program_;
  LaunchEnvironment environment_;
  int progress_fd_ = -1;
  std::string host_;  // where workers listen
  LaunchRounds* rounds_ = nullptr;
  std::set<int> expected_again_;  // ranks
  std::vector<UniqueFd> losses_;  // of each server, where it reads them
  UniqueFd secret_;               // sealed; of all workers and servers
  std::vector<std::unique_ptr<LaunchedWorker>> processes_;
};

}  // namespace troupe
