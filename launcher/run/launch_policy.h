// What the end of one launched process means for the others, and when a whole group is started
// again. No processes here, only decisions, so that every one of them can be tested.
//
// Without parameter servers all workers are needed: the first failure ends all. With them
// the chief (rank 0) and the servers are needed; any other worker may be lost, and training goes on
// without it. In an elastic group any worker may be, once one of them holds the state.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "troupe/launcher/run/launch_child.h"

namespace troupe {

enum class LaunchRole { worker, server, evaluator };

/// "worker/1", "ps/0", "evaluator/0".
[[nodiscard]] std::string task_name(LaunchRole role, int index);

/// How the part of the group on one machine ended, or why it is being stopped; or all of the group.
struct PartEnd {
  int exit_code = 0;
  bool failed = false;      // a worker or a node caused it; the evaluator alone is none of these
  bool can_recover = true;  // all that is needed for another start is still there
  int signal = 0;           // what told its launcher to stop; 0: nothing did
  std::string cause = {};   // "worker/1 was killed by signal 9 (Killed) after 3.2 s"; empty: none
};

/// Exit codes that a new start may mend (docs/errors.md): a signal killed a process, or it lost
/// another one. Requests to stop are none of them.
[[nodiscard]] bool is_worth_a_restart(int exit_code);

class RestartPolicy {
 public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kFirstPause{1'000};
  /// No pause is longer; a start that lived as long has made progress, and pauses begin anew.
  static constexpr Milliseconds kLongestPause{60'000};

  explicit RestartPolicy(int most) : most_(most) {}

  /// The pause before the next start, which this counts; unset: there is none.
  [[nodiscard]] std::optional<Milliseconds> after(const PartEnd& end, Milliseconds lived);
  /// One worker is started again.
  void count_worker() { ++used_; }
  [[nodiscard]] int most() const { return most_; }
  [[nodiscard]] int used() const { return used_; }

 private:
  int most_;
  int used_ = 0;
  Milliseconds next_pause_ = kFirstPause;
};

/// How many of each kind were started, and how often a lost worker is started again.
struct LaunchTerms {
  int workers = 1;
  int servers = 0;
  int restarts = 0;                  // of each worker
  RestartPolicy* elastic = nullptr;  // of an elastic group: the restarts of the whole run
};

/// What one end means.
enum class Consequence {
  none,         // it did its part
  bystander,    // the evaluator failed: the others go on
  lost,         // a worker that training does not need: the others go on
  start_again,  // the same, and a new process takes its place
  suspect,      // it says that it lost another one, which may be about to show
  await_echo,   // it is the cause; the others notice by themselves and are given time to say so
  stop,         // it is the cause: the others are stopped at once
};

class LaunchPolicy {
 public:
  explicit LaunchPolicy(LaunchTerms terms) : terms_(terms) {}

  /// A process ended while nothing was being stopped.
  [[nodiscard]] Consequence on_end(LaunchRole role, int index, const ChildEnd& end);
  /// A worker of an elastic group holds the state.
  void on_state() { has_state_ = true; }
  /// Whether a lost worker of an elastic group, of which nothing was decided when it was lost, is
  /// started again.
  [[nodiscard]] bool takes_back();
  /// A worker is started again, as was decided.
  void on_start_again();
  /// "1 of 3": which restart of the worker, or of an elastic run, comes next, or came.
  [[nodiscard]] std::string restart_text(int rank) const;
  /// The chief ended well; in an elastic group, any worker.
  [[nodiscard]] bool training_is_done() const { return is_done_; }
  /// Who has nothing to do any longer: servers that nobody needs, or workers that nobody serves;
  /// unset: nobody, for training goes on. `workers`, `servers`: how many still run.
  [[nodiscard]] std::optional<LaunchRole> overdue(int workers, int servers) const;

  /// Of ends that are learned of in one go, the one with the smallest number is the likeliest
  /// cause: signals before other failures before lost peers, and last those that cause nothing.
  [[nodiscard]] int order_of_cause(LaunchRole role, int index, const ChildEnd& end) const;

 private:
  [[nodiscard]] bool is_lost(LaunchRole role, int index, const ChildEnd& end) const;

  LaunchTerms terms_;
  bool has_state_ = false;
  bool is_done_ = false;
  int expected_ = 0;             // that an elastic run is about to start again
  std::map<int, int> restarts_;  // by rank
};

}  // namespace troupe
