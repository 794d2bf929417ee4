// PaceKeeper: which worker may take its next step, which number that has, and when training is
// over.
//
// Server 0 (ServerRole::clock) hands out steps; every server holds a worker back until the values
// that it would send are fresh enough for the bound. docs/algorithms.md has the rules.
//
// Vocabulary: a *ticket* is one step of the job's that a worker has been granted and has not ended.
// Pure state: no sockets, no time. Thread rule: the server's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "servers/wire/round_keeper.h"
#include "servers/wire/server_messages.h"
#include "servers/wire/staleness.h"
#include "servers/wire/worker_clocks.h"

namespace troupe {

/// Server 0 numbers the steps; the others follow.
enum class ServerRole { clock, follower };

class PaceKeeper {
 public:
  /// `clocks` and `rounds` outlive this object.
  PaceKeeper(const Staleness& pace, ServerRole role, WorkerClocks& clocks, RoundKeeper& rounds);

  /// Server 0, for a worker that joins: the clock that it starts with, the same on all servers;
  /// from now on nobody passes it. None while a collection runs.
  [[nodiscard]] std::optional<std::int64_t> assign(int rank);
  /// Lost, or an orderly goodbye: it is waited for no more, its tickets go to others.
  void leave(int rank);

  /// Training begins; before that nothing is granted.
  void launch(const Launch& launch);
  /// Training is over: whoever asks for a step learns why. The first reason stays.
  void finish(const std::string& reason);
  [[nodiscard]] bool launched() const { return launch_.has_value(); }
  [[nodiscard]] bool finished() const { return !finished_.empty(); }

  /// Whether the step after `clock` is the next that this worker may ask for.
  [[nodiscard]] bool fits(int rank, std::int64_t clock) const;
  /// Waits here until answers() has it.
  void ask(int rank, std::int64_t clock) { requests_[rank] = clock; }
  struct Granted {
    int rank = 0;
    StepAnswer answer;
  };
  /// All requests that can be answered now; they are no longer waiting.
  [[nodiscard]] std::vector<Granted> answers();
  /// The worker has ended the step before `clock`. False: it cannot have.
  [[nodiscard]] bool end(int rank, std::int64_t clock);
  /// The worker now has values of this moment: what it computes next is as fresh as that.
  void refresh(int rank);

  /// Server 0, for a collection: grants nothing more. The answer says how far workers will get.
  [[nodiscard]] TargetClocks hold();
  void release() { held_ = false; }

  /// Number of the last step that has ended, counted on as launch() says.
  [[nodiscard]] std::int64_t step() const;
  [[nodiscard]] PaceStatistics& statistics() { return statistics_; }
  /// Whom this worker's request is waiting for, as ranks; empty when not for a worker.
  [[nodiscard]] std::vector<int> waits_for(int rank) const;
  [[nodiscard]] bool waiting(int rank) const { return requests_.count(rank) != 0; }

 private:
  /// What a step's values hold.
  struct Read {
    std::int64_t slowest = 0;  // clock
    std::int64_t ended = 0;
  };
  struct Ticket {
    std::int64_t number = 0;
    Read read;
  };
  [[nodiscard]] bool in_pace(std::int64_t clock) const;
  [[nodiscard]] std::optional<StepAnswer> answer(int rank, std::int64_t clock);
  [[nodiscard]] std::optional<StepAnswer> grant(int rank, std::int64_t clock);
  [[nodiscard]] StepAnswer over(const std::string& why) const;
  [[nodiscard]] std::int64_t steps() const { return launch_->last_step - launch_->step; }
  [[nodiscard]] Read read_now() const;

  const Staleness pace_;
  const ServerRole role_;
  WorkerClocks& clocks_;
  RoundKeeper& rounds_;
  std::optional<Launch> launch_;
  std::string finished_;
  bool held_ = false;
  std::map<int, std::int64_t> requests_;                   // clocks by rank
  std::map<int, std::map<std::int64_t, Ticket>> tickets_;  // by rank and clock
  std::set<std::int64_t> returned_;                        // numbers of tickets
  std::int64_t granted_ = 0;                               // numbers so far, asynchronous
  std::int64_t furthest_ = 0;                              // first clock that nobody was granted
  std::int64_t ended_ = 0;                                 // steps of single workers
  PaceStatistics statistics_;
};

}  // namespace troupe
