// What a launch comes to: which process caused its end, which were lost on the way, and what the
// report and the exit code say of it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "troupe/launcher/run/launch_worker.h"

namespace troupe {

class LaunchOutcome {
 public:
  /// The process whose end ended all.
  void blame(const LaunchedWorker& culprit) { culprit_ = &culprit; }
  /// The rendezvous of an elastic group, or a worker on another node, ended all. `cause`: without a
  /// full stop.
  void set_verdict(int exit_code, std::string cause) { verdict_ = {exit_code, std::move(cause)}; }
  /// It lost another one. The first of them stands for the others.
  void add_victim(const LaunchedWorker& victim) {
    if (first_victim_ == nullptr) first_victim_ = &victim;
  }
  /// Names of those that still ran when the victims gave up.
  void set_unresponsive(std::string names) { unresponsive_ = std::move(names); }
  /// It failed before anything stopped it.
  void add_failed_evaluator(const LaunchedWorker& evaluator) { failed_evaluator_ = &evaluator; }
  void interrupt(int signal_number) { interrupted_by_ = signal_number; }
  /// Another machine's part of the group is the reason for the end of this one.
  void set_ordered() { is_ordered_ = true; }
  /// A server did not end after the training.
  void set_servers_overdue() { servers_overdue_ = true; }

  /// A worker that training continues without; `worker` is null where it ran on another node. `now`
  /// says what follows from it, `later` the same in the report. Returns its number, for tell().
  std::size_t add_loss(EndedProcess process, const LaunchedWorker* worker, std::string now,
                       std::string later);
  /// The sentence about a loss; empty: it has been told.
  [[nodiscard]] std::string tell(std::size_t loss);

  [[nodiscard]] bool has_culprit() const { return culprit_ != nullptr || verdict_.exit_code != 0; }
  [[nodiscard]] bool servers_overdue() const { return servers_overdue_; }
  /// The signal that ended it; 0: none.
  [[nodiscard]] int interrupted_by() const { return interrupted_by_; }
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

  struct Verdict {
    int exit_code = 0;  // 0: there is none
    std::string cause;
  };

  [[nodiscard]] bool stopped_uncleanly(const LaunchedWorker& process) const;

  const LaunchedWorker* culprit_ = nullptr;
  const LaunchedWorker* first_victim_ = nullptr;
  const LaunchedWorker* failed_evaluator_ = nullptr;
  Verdict verdict_;
  std::string unresponsive_;
  std::vector<Loss> losses_;
  int interrupted_by_ = 0;
  bool servers_overdue_ = false;
  bool is_ordered_ = false;
};

}  // namespace troupe
