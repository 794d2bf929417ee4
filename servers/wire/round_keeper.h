// RoundKeeper: synchronous training. Which pushes of which workers make the next update.
//
// A *round* is one step of all workers together, numbered by their clock. Its pushes are taken when
// all that take part have sent theirs.
//
// Pure state: no sockets, no time. Thread rule: the server's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "servers/wire/worker_clocks.h"

namespace troupe {

class RoundKeeper {
 public:
  /// `clocks` outlives this object.
  explicit RoundKeeper(const WorkerClocks& clocks) : clocks_(clocks) {}

  struct Offer {
    int rank = 0;
    std::int64_t clock = 0;
    std::uint32_t sequence = 1;
    int optimizer = 0;
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
  [[nodiscard]] std::vector<int> take_all();

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
  [[nodiscard]] const Offer* at_hand() const;
  [[nodiscard]] const Offer* of(int rank) const;
  [[nodiscard]] std::vector<int> expected(const Offer& offer) const;

  const WorkerClocks& clocks_;
  std::vector<Offer> offers_;  // one per worker at most
};

}  // namespace troupe
