// Launch: starts the workers of one group on this machine, and parameter servers and an evaluator
// beside them if asked to; passes their output on line by line, and ends with all of them. The
// first failure that training cannot do without stops the group (launch_policy.h says which);
// nothing is left running, whichever way the launcher itself ends. docs/running.md is the manual.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

inline constexpr int kMaxLocalWorkers = 1024;
inline constexpr int kMaxLocalServers = 256;
inline constexpr int kMaxRestarts = 1'000'000;  // of one worker

struct LaunchOptions {
  enum class Prefix { worker, none };

  int workers = 0;                   // 1 .. kMaxLocalWorkers
  int servers = 0;                   // parameter servers, 0 .. kMaxLocalServers
  int restarts = 0;                  // how often a lost worker is started again; servers only
  bool evaluator = false;            // one more process, which evaluates what the workers save
  std::vector<std::string> command;  // the program and its arguments; not empty
  std::filesystem::path log_dir;     // worker-<rank>.log each; empty: no files
  int threads = 0;                   // compute threads of a worker; 0: the usable cores, shared out
  std::chrono::milliseconds grace{10'000};  // between the signal and SIGKILL
  Prefix prefix = Prefix::worker;           // "[worker/1] " before every line
};

/// The command line of `troupe run`; `arguments`: what follows the word "run".
/// Throws: ConfigError naming the option that is missing, unknown or out of range.
[[nodiscard]] LaunchOptions parse_launch_options(const std::vector<std::string>& arguments);

/// What `troupe help run` prints.
[[nodiscard]] std::string launch_help();

/// Runs the group to its end. Returns 0 if every process did that training needs, the code of the
/// one that failed first (128 + number if a signal killed it), or 129, 130 or 143 after SIGHUP,
/// SIGINT or SIGTERM; 1 if a server did not end after the training; else the code of the evaluator.
/// Blocks: until the workers end; `grace` bounds only what follows a failure or a signal.
/// Thread: the only one of the process; installs signal handlers.
/// Throws: ConfigError (program not found or not executable), EnvironmentError (log directory,
/// loopback port, no more processes).
[[nodiscard]] int launch(const LaunchOptions& options);

}  // namespace troupe
