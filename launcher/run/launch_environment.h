// The variables that launched workers see: their place in the group, thread counts that fit the
// machine, and no trace of another launcher that could contradict them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/launcher/run/launch_start.h"

namespace troupe {

/// What all workers of a group share.
struct LaunchPlan {
  NodePlan told;         // its chief is unused with servers
  int workers_here = 1;  // on this machine
  int usable_cores = 1;
  int threads = 0;  // of a worker, the user's wish; 0: the cores that servers leave / workers
  bool evaluator = false;                        // one is started beside them
  std::vector<std::uint16_t> server_ports = {};  // by index, on 127.0.0.1; empty: no servers
  int secret_fd = -1;                            // inherited by all that take part; -1: none
};

struct LaunchEnvironment {
  Environment variables;             // complete, less what differs between processes
  std::vector<std::string> removed;  // names that another launcher or the user had set
  std::vector<std::string> threads;  // "OMP_NUM_THREADS=2", ... as the workers see them
};

/// The environment of all workers, from the launcher's own.
[[nodiscard]] LaunchEnvironment launch_environment(const Environment& own, const LaunchPlan& plan);

/// What one process has of its own.
struct ProcessPlace {
  LaunchRole role = LaunchRole::worker;
  int index = 0;         // within its role
  int listen_fd = -1;    // its inherited socket; -1: none
  int progress_fd = -1;  // where its progress goes; -1: nowhere
  int rounds_fd = -1;    // of an elastic group: its line to the rendezvous
  bool joins = false;    // a group that trains
  int losses_fd = -1;    // of a server: where it reads which workers are lost
};
/// A parameter server has one compute thread, for it adds numbers as they arrive; the evaluator has
/// the role but no place in the group.
[[nodiscard]] Environment environment_of(const ProcessPlace& place, Environment shared);

}  // namespace troupe
