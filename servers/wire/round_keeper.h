// RoundKeeper: synchronous training. Which pushes of which workers make the next update.
//
// A *round* is one step of all workers together, numbered by their clock. Its pushes are taken when
// all that take part have sent theirs; with backup workers when all but so many have: server 0
// chooses those that came first, the other servers take the ones that it chose.
//
// Pure state: no sockets, no time. Thread rule: the server's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "servers/wire/staleness.h"
#include "servers/wire/worker_clocks.h"

namespace troupe {

/// Server 0 numbers steps and chooses; the others follow.
enum class ServerRole { clock, follower };

class RoundKeeper {
 public:
  /// `clocks` outlives this object.
  RoundKeeper(const Staleness& pace, ServerRole role, const WorkerClocks& clocks)
      : backup_workers_(pace.backup_workers), role_(role), clocks_(clocks) {}

  struct Offer {
    int rank = 0;
    std::int64_t clock = 0;
    std::uint32_t sequence = 1;
    int optimizer = 0;
    std::vector<int> accepted;  // of a follower with backup workers: who takes part
  };
  /// A push has arrived; it waits here until it is taken.
  void offer(const Offer& offer) { offers_.push_back(offer); }
  void forget(int rank);

  /// Pushes that make one update, in rank order.
  struct Update {
    std::vector<int> ranks;
    std::int64_t clock = 0;
    std::uint32_t sequence = 1;
  };
  [[nodiscard]] std::optional<Update> next();
  /// Workers whose push comes after its round was decided without it.
  [[nodiscard]] std::vector<int> take_late();
  [[nodiscard]] std::vector<int> take_all();

  /// Two workers that do different things in one round.
  struct Conflict {
    int rank = 0;
    std::string does;
    int other = 0;
    std::string other_does;
  };
  [[nodiscard]] std::optional<Conflict> conflict() const;

  /// No round is decided until release().
  void hold() { held_ = true; }
  void release() { held_ = false; }

  [[nodiscard]] bool has_backups() const { return backup_workers_ > 0; }
  /// With backup workers, on server 0: rounds that were decided, and who contributed to the last.
  [[nodiscard]] std::int64_t decided() const { return decided_; }
  [[nodiscard]] const std::vector<int>& contributors() const { return contributors_; }
  /// Whose pushes the update at hand still needs.
  [[nodiscard]] std::vector<int> missing() const;

 private:
  [[nodiscard]] bool chooses() const { return has_backups() && role_ == ServerRole::clock; }
  [[nodiscard]] bool continues(const Offer& offer) const;
  [[nodiscard]] const Offer* at_hand() const;
  [[nodiscard]] const Offer* of(int rank) const;
  [[nodiscard]] std::vector<int> expected(const Offer& offer) const;
  [[nodiscard]] std::optional<Update> choose();
  Update take(const std::vector<int>& ranks, const Offer& like);

  const int backup_workers_;
  const ServerRole role_;
  const WorkerClocks& clocks_;
  std::vector<Offer> offers_;  // in the order they came, one per worker at most
  bool held_ = false;
  std::int64_t decided_ = 0;
  std::vector<int> contributors_;
};

}  // namespace troupe
