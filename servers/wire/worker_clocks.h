// WorkerClocks: who takes part in training, as one server sees it, and how far each has come.
//
// A worker's clock counts the steps that it has ended. Somebody who joins while training runs is
// first *entering*: it has been told the clock that it will start with, but not every server knows
// of it yet. Until then it counts as one clock behind, so that nobody passes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace troupe {

class WorkerClocks {
 public:
  explicit WorkerClocks(int world_size) : workers_(static_cast<std::size_t>(world_size)) {}

  [[nodiscard]] int world_size() const { return static_cast<int>(workers_.size()); }
  void assign(int rank, std::int64_t clock) { at(rank) = {Standing::entering, clock, clock}; }
  void enter(int rank, std::int64_t clock) { at(rank) = {Standing::live, clock, clock}; }
  void leave(int rank) { at(rank).standing = Standing::absent; }
  void advance(int rank, std::int64_t clock) { at(rank).clock = clock; }

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
  /// Whether each of these ranks has come to its clock or is no longer live.
  [[nodiscard]] bool reached(const std::map<int, std::int64_t>& targets) const {
    return std::all_of(targets.begin(), targets.end(), [this](const auto& target) {
      const auto& [rank, clock] = target;
      return rank >= world_size() || !live(rank) || at(rank).clock >= clock;
    });
  }
  /// Who takes part and is the furthest behind; its clock, or the largest number when nobody does.
  struct Slowest {
    int rank = -1;
    std::int64_t clock = std::numeric_limits<std::int64_t>::max();
  };
  [[nodiscard]] Slowest slowest() const {
    Slowest slowest;
    for (int rank = 0; rank < world_size(); ++rank) {
      const Worker& worker = at(rank);
      if (worker.standing == Standing::absent) continue;
      const std::int64_t clock = worker.clock - (worker.standing == Standing::entering ? 1 : 0);
      if (clock < slowest.clock) slowest = {rank, clock};
    }
    return slowest;
  }

 private:
  enum class Standing { absent, entering, live };
  struct Worker {
    Standing standing = Standing::absent;
    std::int64_t first = 0;
    std::int64_t clock = 0;
  };
  [[nodiscard]] Worker& at(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Worker& at(int rank) const {
    return workers_[static_cast<std::size_t>(rank)];
  }

  std::vector<Worker> workers_;
};

}  // namespace troupe
