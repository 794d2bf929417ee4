// Connection: frames over one control connection, asynchronously.
//
// Bulk frames (is_bulk: a model's values, gradients, state) pass only where set_limits() has said
// how large they may be; their payloads are not copied and have no checksum of ours.
//
// Thread rule: the network thread only. The write queue is bounded; a peer that does not read is
// closed, not waited for. Both callbacks are dropped by close().
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/frame.h"

namespace troupe {

/// Largest payloads of bulk frames on one connection, in bytes.
struct BulkLimits {
  std::uint64_t rows = 0;   // of push and values
  std::uint64_t state = 0;  // of state
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnFrame = std::function<void(const FrameHeader&, std::vector<std::byte>)>;
  /// `fault` is bad_version when the peer speaks another protocol, else none or what was wrong.
  using OnClosed = std::function<void(const std::string& reason, FrameFault fault)>;

  /// Shared, because Asio's handlers must keep the object alive.
  [[nodiscard]] static std::shared_ptr<Connection> make(boost::asio::ip::tcp::socket socket);

  /// Reads frames until the connection ends.
  void start(OnFrame on_frame, OnClosed on_closed);
  /// Queues a frame; fills in payload length and checksum.
  void send(FrameHeader header, const std::string& payload);
  /// Queues a bulk frame. `on_written` runs when the socket has taken it; never, if it closes
  /// before.
  void send_bulk(FrameHeader header, std::shared_ptr<const std::vector<std::byte>> payload,
                 std::function<void()> on_written = nullptr);
  /// Past the network thread, which is known to do nothing meanwhile: what is queued goes on as far
  /// as the socket takes it, and when nothing is left so does `header`, a frame without payload.
  void send_beside(FrameHeader header);
  /// Lets bulk frames in, and makes room for two of each in the write queue.
  void set_limits(const BulkLimits& limits);
  /// Closes once everything queued is written.
  void close_after_writes();
  void close();

  [[nodiscard]] bool open() const { return socket_.is_open(); }
  /// Bytes that have come so far; grows while a long payload arrives.
  [[nodiscard]] std::uint64_t received_bytes() const { return received_bytes_; }
  [[nodiscard]] bool has_unsent() const { return !queue_.empty(); }
  [[nodiscard]] std::string peer_text() const { return peer_text_; }
  [[nodiscard]] const boost::asio::ip::tcp::socket& socket() const { return socket_; }

 private:
  struct Outgoing {
    std::vector<std::byte> head;  // header, and the payload of a control frame
    std::shared_ptr<const std::vector<std::byte>> bulk;
    std::function<void()> on_written;
    [[nodiscard]] std::size_t bytes() const { return head.size() + (bulk ? bulk->size() : 0); }
  };

  explicit Connection(boost::asio::ip::tcp::socket socket);
  void read_header();
  [[nodiscard]] FrameFault check_header() const;
  void read_payload(std::size_t from);
  void check_payload();
  void enqueue(Outgoing outgoing);
  void deliver();
  void write_some();
  void go_on_writing();
  void fail(const std::string& reason, FrameFault fault);

  boost::asio::ip::tcp::socket socket_;
  std::string peer_text_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
  FrameHeader header_;
  std::vector<std::byte> payload_;
  BulkLimits limits_;
  std::uint64_t received_bytes_ = 0;
  std::deque<Outgoing> queue_;
  std::size_t queued_bytes_ = 0;
  std::size_t sent_bytes_ = 0;                  // of the queue's first frame
  std::vector<std::function<void()>> written_;  // of frames that have left the queue
  bool is_awaiting_ = false;                    // a handler will go on writing
  bool is_broken_ = false;                      // the socket takes no more
  bool closing_ = false;
};

}  // namespace troupe
