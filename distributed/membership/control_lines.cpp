#include "troupe/distributed/membership/control_lines.h"

#include <algorithm>
#include <utility>

#include "troupe/core/clock.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

// Frames normally leave at once; who does not read must not hold up the others.
constexpr std::chrono::milliseconds kFlush{200};
constexpr std::chrono::milliseconds kFlushPoll{1};

}  // namespace

FrameHeader header_of(const Cluster& cluster, FrameType type) {
  FrameHeader header;
  header.type = type;
  header.rank = static_cast<std::uint32_t>(cluster.rank);
  header.generation = cluster.generation;
  return header;
}

ControlLines::ControlLines(boost::asio::io_context& context, const GroupOptions& options,
                           const Cluster& cluster, std::size_t count, LineOwner& owner, Beat beat,
                           OnTold on_told)
    : options_(options),
      own_(troupe::header_of(cluster, FrameType::heartbeat)),
      owner_(owner),
      beat_(beat ? std::move(beat) : [this](int peer) { send(peer, FrameType::heartbeat); }),
      on_told_(std::move(on_told)),
      tick_(context),
      lines_(count),
      liveness_(this->count(), options.heartbeat_timeout, std::chrono::steady_clock::now()),
      retired_(count),
      received_(count),
      poll_(context) {}

void ControlLines::take(int peer, const std::shared_ptr<Connection>& connection) {
  lines_[static_cast<std::size_t>(peer)] = connection;
  heard(peer);
  retired_[static_cast<std::size_t>(peer)] = false;
  const Connection* const who = connection.get();
  connection->start(
      [this, peer, who](const FrameHeader& header, std::vector<std::byte> payload) {
        if (at(peer).get() != who) return;
        heard(peer);
        owner_.on_frame(peer, header, std::move(payload));
      },
      [this, peer, who](const std::string& reason, FrameFault fault) {
        if (at(peer).get() != who) return;
        if (fault != FrameFault::bad_checksum) drop(peer);
        owner_.on_closed(peer, reason, fault);
      });
}

std::shared_ptr<Connection> ControlLines::drop(int peer) {
  return std::exchange(lines_[static_cast<std::size_t>(peer)], nullptr);
}

bool ControlLines::empty() const {
  return std::none_of(lines_.begin(), lines_.end(), [](const auto& line) { return line; });
}

void ControlLines::send(int peer, FrameType type, const std::string& payload,
                        std::uint64_t sequence) {
  const auto line = at(peer);  // a copy: who does not read is closed in the middle of this
  if (line) line->send(header_of(type, sequence), payload);
}

void ControlLines::send_all(FrameType type, const std::string& payload) {
  for (int peer = 0; peer < count(); ++peer) send(peer, type, payload);
}

void ControlLines::beat_beside() {
  for (const auto& line : lines_) {
    if (line) line->send_beside(header_of(FrameType::heartbeat));
  }
}

bool ControlLines::has_unsent() const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const auto& line) { return line && line->has_unsent(); });
}

void ControlLines::fail(const Failure& failure, std::optional<FrameType> as) {
  if (failed()) return;
  failure_ = failure;
  if (as) {
    send_all(*as, to_json(failure));
    flush_limit_ = std::chrono::steady_clock::now() + kFlush;
  }
  flush();
}

void ControlLines::flush() {
  if (!has_unsent() || std::chrono::steady_clock::now() >= flush_limit_) {
    return on_told_(*failure_);
  }
  run_after(poll_, kFlushPoll, [this] { flush(); });
}

FrameHeader ControlLines::header_of(FrameType type, std::uint64_t sequence) const {
  FrameHeader header = own_;
  header.type = type;
  header.sequence = sequence;
  return header;
}

std::chrono::milliseconds ControlLines::tick_of(const GroupOptions& options) {
  return std::max(std::min(options.heartbeat_interval, options.heartbeat_timeout / 4),
                  std::chrono::milliseconds(1));
}

/// Its bytes are counted from here: at the next look they would pass for a later sign of life.
void ControlLines::heard(int peer) {
  liveness_.heard(peer, std::chrono::steady_clock::now());
  received_[static_cast<std::size_t>(peer)] = at(peer)->received_bytes();
}

void ControlLines::on_tick() {
  const auto now = std::chrono::steady_clock::now();
  liveness_.tick(now);
  Liveness::Duration next = tick_of(options_);
  for (int peer = 0; peer < count(); ++peer) {
    if (has(peer)) look_at(peer, now);
    if (has(peer) && !is_retired(peer)) next = liveness_.next_look(peer, now, next);
  }
  run_after(tick_, next, [this] { on_tick(); });
}

void ControlLines::look_at(int peer, Liveness::TimePoint now) {
  const auto line = at(peer);
  // A long payload is a sign of life before it is complete.
  auto& received = received_[static_cast<std::size_t>(peer)];
  if (std::exchange(received, line->received_bytes()) != line->received_bytes()) {
    liveness_.heard(peer, now);
  }
  if (liveness_.lost(peer, now) && !is_retired(peer)) {
    const Seconds silent = liveness_.silence(peer, now);
    const Seconds limit = options_.heartbeat_timeout;
    owner_.lose(peer,
                text("no heartbeat for ", silent.count(), " s (limit ", limit.count(), " s)"));
  } else if (!line->has_unsent()) {
    beat_(peer);
  }
}

}  // namespace troupe
