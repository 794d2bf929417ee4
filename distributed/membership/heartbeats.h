// Heartbeats: says something on every control line that is otherwise quiet, and finds those whose
// other end has been silent for too long.
//
// Thread rule: the network thread only.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "troupe/core/options/group_options.h"
#include "troupe/distributed/membership/control_lines.h"

namespace troupe {

/// Who has been silent for how long, by this process's own clock.
///
/// A process that was itself stopped (debugger, SIGSTOP, suspended machine) must not blame others
/// for the time it missed: when its own ticks come late, everybody gets a fresh interval.
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

class Heartbeats {
 public:
  /// Nothing is on its way to this peer, who is to hear that we live.
  using Beat = std::function<void(int peer)>;
  using OnLost = std::function<void(int peer, const std::string& how)>;

  /// `lines` outlives this object.
  Heartbeats(boost::asio::io_context& context, const GroupOptions& options,
             const ControlLines& lines, Beat beat, OnLost on_lost);

  void start() { on_tick(); }
  void heard(int peer);
  /// It comes, or comes back: it is heard now, and its silence counts.
  void watch(int peer);
  /// It said goodbye: its silence means nothing any more.
  void retire(int peer) { retired_[static_cast<std::size_t>(peer)] = true; }
  [[nodiscard]] bool is_retired(int peer) const { return retired_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] bool has_been_heard_since(int peer, Liveness::TimePoint when) const {
    return liveness_.last_heard(peer) > when;
  }

  /// How often heartbeats are sent and silence is looked at: at most every heartbeat_interval, and
  /// at least four times per heartbeat_timeout; the last look before a loss comes when the timeout
  /// is over.
  [[nodiscard]] static std::chrono::milliseconds tick_of(const GroupOptions& options);

 private:
  void on_tick();
  void look_at(int peer, Liveness::TimePoint now);

  const GroupOptions options_;
  const ControlLines& lines_;
  const Beat beat_;
  const OnLost on_lost_;
  boost::asio::steady_timer tick_;
  Liveness liveness_;
  std::vector<bool> retired_;            // by peer
  std::vector<std::uint64_t> received_;  // bytes by peer, when it was last heard
};

}  // namespace troupe
