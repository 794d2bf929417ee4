// ControlLines: the control connections of one process, by the number of the other: a worker's rank
// where workers come in, a server's index where they go out, 0 for the chief.
//
// A connection that was dropped or followed by another no longer counts: nothing that it still says
// reaches the owner. Thread rule: the network thread only, but for beat_beside().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/distributed/net/connection.h"

namespace troupe {

/// A header as this process of `cluster` sends it.
[[nodiscard]] FrameHeader header_of(const Cluster& cluster, FrameType type);

class ControlLines {
 public:
  using OnFrame = std::function<void(int peer, const FrameHeader&, std::vector<std::byte>)>;
  /// The line is free again when this runs; but where `fault` is bad_checksum, what came was
  /// damaged on the way, and the line stays taken so that the peer may be told.
  using OnClosed = std::function<void(int peer, const std::string& reason, FrameFault)>;

  /// Frames are sent as this process of `cluster`.
  ControlLines(const Cluster& cluster, std::size_t count, OnFrame on_frame, OnClosed on_closed);

  /// From now on `peer` is at the other end of this connection.
  void take(int peer, const std::shared_ptr<Connection>& connection);
  /// Frees the line and gives back what it was, still open; null where it was free.
  std::shared_ptr<Connection> drop(int peer);
  [[nodiscard]] const std::shared_ptr<Connection>& at(int peer) const {
    return lines_[static_cast<std::size_t>(peer)];
  }
  /// This end's address on a taken line: "127.0.0.1".
  [[nodiscard]] std::string local_address(int peer) const;
  [[nodiscard]] bool has(int peer) const { return at(peer) != nullptr; }
  [[nodiscard]] bool empty() const;
  [[nodiscard]] int count() const { return static_cast<int>(lines_.size()); }

  /// Nothing happens on a free line.
  void send(int peer, FrameType type, const std::string& payload = "", std::uint64_t sequence = 0);
  void send_all(FrameType type, const std::string& payload = "");
  /// A heartbeat to everybody; see Connection::send_beside.
  void beat_beside();
  [[nodiscard]] bool has_unsent() const;
  [[nodiscard]] FrameHeader header_of(FrameType type, std::uint64_t sequence = 0) const;

 private:
  const FrameHeader own_;
  const OnFrame on_frame_;
  const OnClosed on_closed_;
  std::vector<std::shared_ptr<Connection>> lines_;  // by peer; null: free
};

}  // namespace troupe
