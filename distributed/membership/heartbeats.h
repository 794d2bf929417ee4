// Heartbeats: says something on every control line that is otherwise quiet, and finds those whose
// other end has been silent for too long.
//
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "distributed/membership/control_lines.h"
#include "distributed/membership/liveness.h"
#include "options/group_options.h"

namespace troupe {

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
  std::vector<std::uint64_t> received_;  // bytes by peer, at the last tick
};

}  // namespace troupe
