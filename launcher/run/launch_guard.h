// Guard: a small process that outlives a launcher killed with SIGKILL, for as long as it takes to
// kill what the launcher started. The kernel's parent-death signal reaches the workers alone; the
// guard reaches the processes that workers started, by their process groups. It also ends what a
// lease allowed (launch_node_lease.h): a launcher that is stopped could not.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

#include "troupe/core/unique_fd.h"

namespace troupe {

class LaunchGuard {
 public:
  /// Forks the guard. Construct it before opening descriptors and before any other child.
  /// Throws: EnvironmentError.
  LaunchGuard();
  /// Tells the guard that all is done and waits for its end, which follows at once.
  ~LaunchGuard();
  LaunchGuard(const LaunchGuard&) = delete;
  LaunchGuard& operator=(const LaunchGuard&) = delete;

  /// From now on the process group `leader` dies with the launcher.
  void watch(pid_t leader) const;
  /// What is watched dies at `when`, and what is watched later than that at once, until the next
  /// call.
  void allow_until(std::chrono::steady_clock::time_point when) const;
  /// The group is gone; its number may be given to others.
  void forget(pid_t leader) const;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Somebody killed the guard and the caller reaps it: workers' own children lose its protection.
  void lost() { pid_ = -1; }

 private:
  struct Message {
    pid_t leader = 0;  // to be watched; negative: gone; 0: the lease
    std::int64_t until_ns = 0;
  };
  [[noreturn]] static void guard(int pipe_fd);
  void send(const Message& message) const;

  pid_t pid_ = -1;
  UniqueFd fd_;  // the guard wakes when the last copy of this end closes
};

}  // namespace troupe
