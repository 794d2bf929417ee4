#include "troupe/distributed/membership/control_lines.h"

#include <algorithm>
#include <utility>

namespace troupe {

FrameHeader header_of(const Cluster& cluster, FrameType type) {
  FrameHeader header;
  header.type = type;
  header.rank = static_cast<std::uint32_t>(cluster.rank);
  header.generation = cluster.generation;
  return header;
}

ControlLines::ControlLines(const Cluster& cluster, std::size_t count, OnFrame on_frame,
                           OnClosed on_closed)
    : own_(troupe::header_of(cluster, FrameType::heartbeat)),
      on_frame_(std::move(on_frame)),
      on_closed_(std::move(on_closed)),
      lines_(count) {}

void ControlLines::take(int peer, const std::shared_ptr<Connection>& connection) {
  lines_[static_cast<std::size_t>(peer)] = connection;
  const Connection* const who = connection.get();
  connection->start(
      [this, peer, who](const FrameHeader& header, std::vector<std::byte> payload) {
        if (at(peer).get() == who) on_frame_(peer, header, std::move(payload));
      },
      [this, peer, who](const std::string& reason, FrameFault fault) {
        if (at(peer).get() != who) return;
        if (fault != FrameFault::bad_checksum) drop(peer);
        on_closed_(peer, reason, fault);
      });
}

std::shared_ptr<Connection> ControlLines::drop(int peer) {
  return std::exchange(lines_[static_cast<std::size_t>(peer)], nullptr);
}

std::string ControlLines::local_address(int peer) const { return at(peer)->local_address(); }

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

FrameHeader ControlLines::header_of(FrameType type, std::uint64_t sequence) const {
  FrameHeader header = own_;
  header.type = type;
  header.sequence = sequence;
  return header;
}

}  // namespace troupe
