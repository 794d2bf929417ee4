// ControlLines: the control connections of one process, by the number of the other: a worker's rank
// where workers come in, a server's index where they go out, 0 for the chief.
//
// A connection that was dropped or followed by another no longer counts: nothing that it still says
// reaches the owner. A line that is otherwise quiet carries heartbeats, and an end that has been
// silent for too long is found. Thread rule: the network thread only, but for beat_beside().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/core/options/group_options.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/membership/liveness.h"
#include "troupe/distributed/net/connection.h"

namespace troupe {

/// A header as this process of `cluster` sends it.
[[nodiscard]] FrameHeader header_of(const Cluster& cluster, FrameType type);

/// Whom the lines tell what happens on them.
class LineOwner {
 public:
  virtual ~LineOwner() = default;
  virtual void on_frame(int peer, const FrameHeader& header, std::vector<std::byte> payload) = 0;
  /// The line is free again when this runs; but where `fault` is bad_checksum, what came was
  /// damaged on the way, and the line stays taken so that the peer may be told.
  virtual void on_closed(int peer, const std::string& reason, FrameFault fault) = 0;
  /// It has been silent for too long: "no heartbeat for 5.1 s (limit 5 s)".
  virtual void lose(int peer, const std::string& how) = 0;
};

class ControlLines {
 public:
  /// Nothing is on its way to this peer, who is to hear that we live.
  using Beat = std::function<void(int peer)>;
  /// Why this process stops, once it has been told.
  using OnTold = std::function<void(const Failure&)>;

  /// Frames are sent as this process of `cluster`. `owner` outlives this object; without `beat` a
  /// heartbeat says nothing else.
  ControlLines(boost::asio::io_context& context, const GroupOptions& options,
               const Cluster& cluster, std::size_t count, LineOwner& owner, Beat beat = nullptr,
               OnTold on_told = nullptr);

  /// From now on silence is noticed, and heartbeats are sent.
  void start() { on_tick(); }
  /// From now on `peer` is at the other end of this connection, and its silence counts.
  void take(int peer, const std::shared_ptr<Connection>& connection);
  /// Frees the line and gives back what it was, still open; null where it was free.
  std::shared_ptr<Connection> drop(int peer);
  [[nodiscard]] const std::shared_ptr<Connection>& at(int peer) const {
    return lines_[static_cast<std::size_t>(peer)];
  }
  [[nodiscard]] bool has(int peer) const { return at(peer) != nullptr; }
  [[nodiscard]] bool empty() const;
  [[nodiscard]] int count() const { return static_cast<int>(lines_.size()); }

  /// Nothing happens on a free line.
  void send(int peer, FrameType type, const std::string& payload = "", std::uint64_t sequence = 0);
  void send_all(FrameType type, const std::string& payload = "");
  /// A heartbeat to everybody; see Connection::send_beside.
  void beat_beside();
  [[nodiscard]] bool has_unsent() const;
  /// Tells everybody why this process stops; `as` is abort or report, none: nobody is told. Then
  /// `on_told` runs once, when the frames have left, or shortly after where somebody does not read.
  /// First the frames leave: the thread that it wakes may end this process. The first failure
  /// stays; those after it are ignored.
  void fail(const Failure& failure, std::optional<FrameType> as);
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }

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

  [[nodiscard]] FrameHeader header_of(FrameType type, std::uint64_t sequence = 0) const;

 private:
  void flush();
  void heard(int peer);
  void on_tick();
  void look_at(int peer, Liveness::TimePoint now);

  const GroupOptions options_;
  const FrameHeader own_;
  LineOwner& owner_;
  const Beat beat_;
  const OnTold on_told_;
  boost::asio::steady_timer tick_;
  std::vector<std::shared_ptr<Connection>> lines_;  // by peer; null: free
  Liveness liveness_;
  std::vector<bool> retired_;            // by peer
  std::vector<std::uint64_t> received_;  // bytes by peer, when it was last heard
  std::optional<Failure> failure_;
  boost::asio::steady_timer poll_;  // whether it has left
  std::chrono::steady_clock::time_point flush_limit_;
};

}  // namespace troupe
