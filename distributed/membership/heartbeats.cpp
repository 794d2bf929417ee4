#include "troupe/distributed/membership/heartbeats.h"

#include <utility>

#include "troupe/core/clock.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {

Heartbeats::Heartbeats(boost::asio::io_context& context, const GroupOptions& options,
                       const ControlLines& lines, Beat beat, OnLost on_lost)
    : options_(options),
      lines_(lines),
      beat_(std::move(beat)),
      on_lost_(std::move(on_lost)),
      tick_(context),
      liveness_(lines.count(), options.heartbeat_timeout, std::chrono::steady_clock::now()),
      retired_(static_cast<std::size_t>(lines.count())),
      received_(static_cast<std::size_t>(lines.count())) {}

std::chrono::milliseconds Heartbeats::tick_of(const GroupOptions& options) {
  return std::max(std::min(options.heartbeat_interval, options.heartbeat_timeout / 4),
                  std::chrono::milliseconds(1));
}

/// Its bytes are counted from here: at the next look they would pass for a later sign of life.
void Heartbeats::heard(int peer) {
  liveness_.heard(peer, std::chrono::steady_clock::now());
  if (lines_.has(peer))
    received_[static_cast<std::size_t>(peer)] = lines_.at(peer)->received_bytes();
}

void Heartbeats::watch(int peer) {
  heard(peer);
  retired_[static_cast<std::size_t>(peer)] = false;
}

void Heartbeats::on_tick() {
  const auto now = std::chrono::steady_clock::now();
  liveness_.tick(now);
  Liveness::Duration next = tick_of(options_);
  for (int peer = 0; peer < lines_.count(); ++peer) {
    if (lines_.has(peer)) look_at(peer, now);
    if (lines_.has(peer) && !is_retired(peer)) next = liveness_.next_look(peer, now, next);
  }
  run_after(tick_, next, [this] { on_tick(); });
}

void Heartbeats::look_at(int peer, Liveness::TimePoint now) {
  const auto line = lines_.at(peer);
  // A long payload is a sign of life before it is complete.
  auto& received = received_[static_cast<std::size_t>(peer)];
  if (std::exchange(received, line->received_bytes()) != line->received_bytes()) {
    liveness_.heard(peer, now);
  }
  if (liveness_.lost(peer, now) && !is_retired(peer)) {
    const Seconds silent = liveness_.silence(peer, now);
    const Seconds limit = options_.heartbeat_timeout;
    on_lost_(peer, text("no heartbeat for ", silent.count(), " s (limit ", limit.count(), " s)"));
  } else if (!line->has_unsent()) {
    beat_(peer);
  }
}

}  // namespace troupe
