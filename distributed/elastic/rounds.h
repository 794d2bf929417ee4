// Rounds: an elastic group's life. A *round* is a set of workers that train together until one of
// them is lost or another one comes; then those that are left form the next. One *rendezvous*
// issues rounds (the launcher has it, launcher/nodes/launch_rendezvous.h); every worker asks it for
// the next, and none begins without.
//
// A worker *holds* the run's state from its first step on, or from the moment when others gave it
// theirs. Only those that hold it decide; a worker that joins waits until they admit it, at the
// edge of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"

namespace troupe {

/// What a worker says when it has left its round, or has none yet, and wants the next.
struct Readiness {
  std::uint64_t round = 0;  // that it has left; 0: it joins
  bool holds = false;       // the run's state
  bool admits = false;      // it left for those that wait to join, not because of a loss
  std::int64_t step = 0;    // the last one that is complete
  std::string lost;         // the task that its group named: "worker/1"; empty: nobody
  std::string cause;        // how: "worker/1 is gone: its connection closed"
  /// What the lost worker was computing: "step 120: virtual replicas 2 to 3, examples 17, 99, 4".
  std::string work;
  bool leaves = false;  // it left all rounds, and its process is about to end
  bool leads = true;    // it can be the chief: it sees what the chief writes
};

/// Who trains together from now on.
struct Round {
  struct Member {
    std::string task;  // "worker/1", the same in every round
    Endpoint address;  // where it listens
    bool holds = false;
  };
  std::uint64_t number = 0;      // from 1, in the order in which they are issued
  std::uint64_t generation = 0;  // Cluster::generation, of no other round
  int rank = 0;                  // this worker's
  std::vector<Member> members;   // by rank: first those that hold the state
};

/// A worker of a round is gone, whether or not the others have noticed.
struct RoundLoss {
  std::uint64_t round = 0;
  std::string lost;   // its task
  std::string cause;  // sentence, ends with '.'
};

/// How a worker is to end, at the edge of a step.
struct Departure {
  bool is_alone = false;  // it leaves, and the others go on; else all save and stop
  std::string cause;      // of all, with a full stop; empty: a signal came to the launcher
  std::string fix;
};

/// A worker's end of the line to its rendezvous.
class Rounds {
 public:
  virtual ~Rounds() = default;

  /// From now on this worker holds the run's state: the others go on without one that is lost.
  virtual void started() = 0;
  /// Leaves the present round and waits for the next one; unset: training is over, and there is
  /// nothing left to do here.  Blocks: until those that hold the state have said the same, or were
  /// ended because they did not; a worker that joins until it is admitted.  Throws: PeerLost (too
  /// few workers are left, or the rendezvous is gone), PeerFailed (the same step has cost several
  /// workers, or another worker failed), Stopped (the others have saved and stopped).
  [[nodiscard]] virtual std::optional<Round> next(const Readiness& mine) = 0;
  /// This worker was told to end, by a signal. Only the rendezvous knows whether the others were,
  /// too: departure() is its answer. Asking again changes nothing.  Blocks: no.
  virtual void ask_to_leave() = 0;
  /// Unset: this worker goes on.  Thread: any.  Blocks: no.
  [[nodiscard]] virtual std::optional<Departure> departure() const = 0;
  /// Leaves all rounds; `mine` says so. The next one begins when this process has ended.
  virtual void leave(const Readiness& mine) = 0;
  /// Calls `on_lost`, in another thread, when a worker of a round is gone: its own group may still
  /// wait for it.
  virtual void watch(std::function<void(const RoundLoss&)> on_lost) = 0;
  /// Whether workers wait to be admitted.  Thread: any.  Blocks: no.
  [[nodiscard]] virtual bool joiners_wait() const noexcept = 0;
};

}  // namespace troupe
