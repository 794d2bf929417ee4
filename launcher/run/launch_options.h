// The command line of `troupe run`, read.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/options/cluster.h"

namespace troupe {

inline constexpr int kMaxLocalWorkers = 1024;
inline constexpr int kMaxLocalServers = 256;
inline constexpr int kMaxLocalProcesses = kMaxLocalWorkers + kMaxLocalServers + 1;  // an evaluator
inline constexpr int kMaxRestarts = 1'000'000;
inline constexpr int kMaxNodes = 1024;

/// What only a launcher of several has to know.
struct NodeOptions {
  int nodes = 1;                                     // machines that run a launcher each
  int node = 0;                                      // which of them this is
  Endpoint rendezvous;                               // where node 0 listens; no host: none
  std::chrono::milliseconds start_timeout{300'000};  // until all nodes have joined
};

struct LaunchOptions {
  int workers = 0;       // on this machine, 1 .. kMaxLocalWorkers
  int servers = 0;       // parameter servers, 0 .. kMaxLocalServers
  int restarts = 0;      // how often a lost worker is started again; servers only
  int max_restarts = 0;  // how often the whole group is; without servers only
  int min_workers = 0;   // of an elastic group, 1 .. workers; 0: it is none
  std::chrono::milliseconds regroup_limit{60'000};  // for that many to be there again
  bool evaluator = false;            // one more process, which evaluates what the workers save
  std::vector<std::string> command;  // the program and its arguments; not empty
  std::string log_dir;               // worker-<rank>.log each; empty: no files
  std::string secret_file;           // the job's secret; empty: one drawn for this run
  int threads = 0;                   // compute threads of a worker; 0: the usable cores, shared out
  std::chrono::milliseconds grace{10'000};  // between the signal and SIGKILL
  bool prefix = true;                       // "[worker/1] " before every line
  bool progress = true;                     // shown below all output, on a terminal only
  NodeOptions node;

  /// Goes on without lost workers.
  [[nodiscard]] bool is_elastic() const { return min_workers > 0; }
};

/// The command line of `troupe run`; `arguments`: what follows the word "run".
/// `environment`: this process's. Throws: ConfigError naming the option that is missing, unknown or
/// out of range.
[[nodiscard]] LaunchOptions parse_launch_options(const std::vector<std::string>& arguments,
                                                 const Environment& environment = {});

/// What `troupe help run` prints.
[[nodiscard]] std::string launch_help();

}  // namespace troupe
