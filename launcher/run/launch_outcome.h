// What a launch comes to: which process caused its end, which were lost on the way, and what the
// report and the exit code say of it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "troupe/launcher/run/launch_worker.h"

namespace troupe {

struct LaunchOutcome {
  struct Verdict {
    int exit_code = 0;  // 0: there is none
    std::string cause;  // without a full stop
  };

  const LaunchedWorker* culprit = nullptr;           // whose end ended all
  const LaunchedWorker* first_victim = nullptr;      // of those that lost another one
  const LaunchedWorker* failed_evaluator = nullptr;  // before anything stopped it
  Verdict verdict;               // the rendezvous, or a worker on another node, ended all
  std::string unresponsive;      // names of those that still ran when the victims gave up
  int interrupted_by = 0;        // the signal that ended it; 0: none
  bool servers_overdue = false;  // a server did not end after the training
  bool is_ordered =
      false;  // another machine's part of the group is the reason for the end of this one

  /// A worker that training continues without; `worker` is null where it ran on another node. `now`
  /// says what follows from it, `later` the same in the report. Returns its number, for tell().
  std::size_t add_loss(EndedProcess process, const LaunchedWorker* worker, std::string now,
                       std::string later);
  /// The sentence about a loss; empty: it has been told.
  [[nodiscard]] std::string tell(std::size_t loss);

  [[nodiscard]] bool has_culprit() const { return culprit != nullptr || verdict.exit_code != 0; }
  /// A worker or a server is the reason for its end.
  [[nodiscard]] bool failed() const;
  /// "worker/1 was killed by signal 9 (Killed) after 3.2 s"; empty unless failed().
  [[nodiscard]] std::string cause() const;
  /// See launch().
  [[nodiscard]] int exit_code() const;
  /// The sentences to end with. All processes have ended.
  [[nodiscard]] std::vector<std::string> report(
      const std::vector<std::unique_ptr<LaunchedWorker>>& processes) const;

 private:
  struct Loss {
    EndedProcess process;
    const LaunchedWorker* worker = nullptr;
    std::string now;
    std::string later;
    bool told = false;
  };

  [[nodiscard]] bool stopped_uncleanly(const LaunchedWorker& process) const;

  std::vector<Loss> losses_;
};

}  // namespace troupe
