// PaceKeeper: which worker may take its next step, which number that has, and when training is
// over.
//
// Server 0 (ServerRole::clock) hands out steps; every server holds a worker back until the values
// that it would send are fresh enough for the bound. docs/algorithms.md has the rules.
//
// Vocabulary: a worker's *clock* counts the steps that it has ended. With a bound of S, a worker
// may begin a step with parameters that hold all updates of all live workers up to its own clock -
// S. A *ticket* is one step of the job's that a worker has been granted and has not ended. A
// *round* is one step of all workers together in synchronous training, numbered by their clock.
// Pure state: no sockets, no time. Thread rule: the server's thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/parameter_server/wire/row_messages.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace troupe {

/// Who takes part in training, as one server sees it, and how far each has come. Somebody who joins
/// while training runs is first *entering*: it has been told the clock that it will start with, but
/// not every server knows of it yet. Until then it counts as one clock behind, so that nobody
/// passes it.
class WorkerClocks {
 public:
  explicit WorkerClocks(int world_size) : workers_(static_cast<std::size_t>(world_size)) {}

  [[nodiscard]] int world_size() const { return static_cast<int>(workers_.size()); }
  void assign(int rank, std::int64_t clock) { at(rank) = {Standing::entering, clock, clock}; }
  void enter(int rank, std::int64_t clock) { at(rank) = {Standing::live, clock, clock}; }
  void lose(int rank) { at(rank).standing = Standing::absent; }
  /// It is lost and does not come again, as its launcher says; if it does, it takes part.
  void give_up(int rank) { at(rank).is_given_up = true; }
  /// It has said goodbye: all steps that it has ended count.
  void leave(int rank) { at(rank).standing = Standing::left; }
  void advance(int rank, std::int64_t clock) { at(rank).clock = clock; }

  [[nodiscard]] bool is_given_up(int rank) const { return at(rank).is_given_up; }
  [[nodiscard]] bool live(int rank) const { return at(rank).standing == Standing::live; }
  [[nodiscard]] std::int64_t clock(int rank) const { return at(rank).clock; }
  /// Live at step `clock`, though it may have gone on since.
  [[nodiscard]] bool takes_part(int rank, std::int64_t clock) const {
    return live(rank) && at(rank).first <= clock;
  }
  [[nodiscard]] std::vector<int> live_ranks() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < world_size(); ++rank) {
      if (live(rank)) ranks.push_back(rank);
    }
    return ranks;
  }
  /// Whose steps are in every server's state once it has come to their clock: who is live, and who
  /// has left, since its last push may still be on its way to a slow server.
  [[nodiscard]] bool counts(int rank) const {
    return live(rank) || at(rank).standing == Standing::left;
  }
  /// Whether each of these ranks has come to its clock or is no longer live.
  [[nodiscard]] bool reached(const std::map<int, std::int64_t>& targets) const {
    return std::all_of(targets.begin(), targets.end(), [this](const auto& target) {
      const auto& [rank, clock] = target;
      return rank >= world_size() || !live(rank) || at(rank).clock >= clock;
    });
  }
  /// The clock of who takes part and is the furthest behind; unset when nobody does.
  [[nodiscard]] std::optional<std::int64_t> slowest() const {
    std::optional<std::int64_t> slowest;
    for (int rank = 0; rank < world_size(); ++rank) {
      const Worker& worker = at(rank);
      if (worker.standing != Standing::entering && !live(rank)) continue;
      const std::int64_t clock = worker.clock - (worker.standing == Standing::entering ? 1 : 0);
      if (!slowest || clock < *slowest) slowest = clock;
    }
    return slowest;
  }

 private:
  enum class Standing { absent, entering, live, left };
  struct Worker {
    Standing standing = Standing::absent;
    std::int64_t first = 0;
    std::int64_t clock = 0;
    bool is_given_up = false;
  };
  [[nodiscard]] Worker& at(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Worker& at(int rank) const {
    return workers_[static_cast<std::size_t>(rank)];
  }

  std::vector<Worker> workers_;
};

/// Synchronous training: which pushes of which workers make the next update. Those of a round are
/// taken when all that take part have sent theirs.
class RoundKeeper {
 public:
  /// `clocks` outlives this object.
  explicit RoundKeeper(const WorkerClocks& clocks) : clocks_(clocks) {}

  using Pushes = std::map<int, ReceivedPush>;  // by rank

  /// A push has arrived; it waits here until it is taken.
  void offer(int rank, ReceivedPush push) { pushes_.emplace(rank, std::move(push)); }
  [[nodiscard]] bool has(int rank) const { return pushes_.count(rank) != 0; }
  void forget(int rank) { pushes_.erase(rank); }

  /// Pushes that make one update; none: some are missing.
  [[nodiscard]] Pushes next();
  [[nodiscard]] Pushes take_all() { return std::exchange(pushes_, {}); }

  /// Two workers that do different things in one round.
  struct Conflict {
    int rank = 0;
    std::string does;
    int other = 0;
    std::string other_does;
  };
  [[nodiscard]] std::optional<Conflict> conflict() const;
  /// Whose pushes the update at hand still needs.
  [[nodiscard]] std::vector<int> missing() const;

 private:
  [[nodiscard]] const ReceivedPush* at_hand() const;
  [[nodiscard]] std::vector<int> expected(const ReceivedPush& push) const;

  const WorkerClocks& clocks_;
  Pushes pushes_;
};

/// Server 0 numbers the steps; the others follow.
enum class ServerRole { clock, follower };

class PaceKeeper {
 public:
  /// `clocks` outlives this object.
  PaceKeeper(const ServerOptions& pace, ServerRole role, WorkerClocks& clocks)
      : pace_(pace), role_(role), clocks_(clocks) {}

  /// Server 0, for a worker that joins: the clock that it starts with, the same on all servers;
  /// from now on nobody passes it. None while a collection runs.
  [[nodiscard]] std::optional<std::int64_t> assign(int rank);
  /// Waited for no more; its tickets go to others. A collection awaits the steps of one that has
  /// left in order, not those of one that is lost.
  void lose(int rank);
  void leave(int rank);

  /// Training begins; before that nothing is granted.
  void launch(const Launch& launch) { launch_ = launch; }
  /// Training is over: whoever asks for a step learns why. The first reason stays.
  void finish(const std::string& reason);
  /// What training started from; null: it has not.
  [[nodiscard]] const Launch* launched() const { return launch_ ? &*launch_ : nullptr; }
  [[nodiscard]] bool finished() const { return !finished_.empty(); }

  /// Waits here until answers() has it. False: the step after `clock` is not the next that this
  /// worker may ask for.
  [[nodiscard]] bool ask(int rank, std::int64_t clock);
  /// All requests that can be answered now, by rank; they are no longer waiting.
  [[nodiscard]] std::map<int, StepAnswer> answers();
  /// The worker has ended the step before `clock`. False: it cannot have.
  [[nodiscard]] bool end(int rank, std::int64_t clock);
  /// The worker now has values of this moment: what it computes next is as fresh as that.
  void refresh(int rank);
  /// Asynchronous: steps that have ended since this worker read the values of its present step.
  [[nodiscard]] std::int64_t missed(int rank) const;

  /// Server 0, for a collection: grants nothing more. The answer says how far workers will get.
  [[nodiscard]] TargetClocks hold();
  void release() { held_ = false; }

  /// Number of the last step that has ended, counted on as launch() says.
  [[nodiscard]] std::int64_t step() const;
  [[nodiscard]] PaceStatistics& statistics() { return statistics_; }
  /// Whom this worker's request is waiting for, as ranks; empty when not for a worker.
  [[nodiscard]] std::vector<int> waits_for(int rank) const;

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
  void note_read(int rank);
  [[nodiscard]] StepAnswer over(const std::string& why) const;
  [[nodiscard]] std::int64_t steps() const { return launch_->last_step - launch_->step; }
  [[nodiscard]] Read read_now() const;

  const ServerOptions pace_;
  const ServerRole role_;
  WorkerClocks& clocks_;
  std::optional<Launch> launch_;
  std::string finished_;
  bool held_ = false;
  std::map<int, std::int64_t> requests_;  // clocks by rank
  std::map<int, Ticket> tickets_;         // by rank
  std::set<std::int64_t> returned_;       // numbers of tickets
  std::int64_t granted_ = 0;              // numbers so far, asynchronous
  std::int64_t furthest_ = 0;             // first clock that nobody was granted
  std::int64_t ended_ = 0;                // steps of single workers
  PaceStatistics statistics_;
};

}  // namespace troupe
