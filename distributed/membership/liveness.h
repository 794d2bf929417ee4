// Liveness: who has been silent for how long, by this process's own clock.
//
// A process that was itself stopped (debugger, SIGSTOP, suspended machine) must not blame others
// for the time it missed: when its own ticks come late, everybody gets a fresh interval.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace troupe {

class Liveness {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  Liveness(int world_size, Duration timeout, TimePoint now)
      : heard_(static_cast<std::size_t>(world_size), now),
        timeout_(timeout),
        last_tick_(now),
        fresh_from_(now) {}

  void heard(int rank, TimePoint now) { heard_[static_cast<std::size_t>(rank)] = now; }

  [[nodiscard]] TimePoint last_heard(int rank) const {
    return heard_[static_cast<std::size_t>(rank)];
  }

  /// To be called several times per timeout. A gap of half the timeout means that this process
  /// did not run.
  void tick(TimePoint now) {
    if (now - last_tick_ > timeout_ / 2) fresh_from_ = now;
    last_tick_ = now;
  }

  [[nodiscard]] Duration silence(int rank, TimePoint now) const {
    return now - std::max(heard_[static_cast<std::size_t>(rank)], fresh_from_);
  }
  [[nodiscard]] bool lost(int rank, TimePoint now) const { return silence(rank, now) > timeout_; }
  /// How long to wait before the next look: `usual`, or less where `rank` would be lost before
  /// that, so that a loss is seen when the timeout is over and not a tick later.
  [[nodiscard]] Duration next_look(int rank, TimePoint now, Duration usual) const {
    constexpr Duration kJustAfter = std::chrono::milliseconds(1);
    return lost(rank, now) ? usual : std::min(usual, timeout_ - silence(rank, now) + kJustAfter);
  }

 private:
  std::vector<TimePoint> heard_;
  Duration timeout_;
  TimePoint last_tick_;
  TimePoint fresh_from_;
};

}  // namespace troupe
