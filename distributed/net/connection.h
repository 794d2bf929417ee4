// Connection: frames over one control connection, asynchronously, whether it is encrypted or not.
//
// Bulk frames (is_bulk: a model's values, gradients, state) pass only where set_limits() has said
// how large they may be; their payloads are not copied.
//
// Thread rule: the network thread only. The write queue is bounded; a peer that does not read is
// closed, not waited for. Both callbacks are dropped by close().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/incoming_frame.h"
#include "troupe/distributed/net/proven_socket.h"

namespace troupe {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnFrame = std::function<void(const FrameHeader&, std::vector<std::byte>)>;
  /// `fault` is bad_version when the peer speaks another protocol, bad_checksum when what came is
  /// not what it has sent, else none or what was wrong. With bad_checksum nothing more is read, but
  /// the connection is still open: the peer may be told.
  using OnClosed = std::function<void(const std::string& reason, FrameFault fault)>;

  /// Shared, because Asio's handlers must keep the object alive.
  [[nodiscard]] static std::shared_ptr<Connection> make(ProvenSocket proven);

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
  /// As IncomingFrame::reuse.
  void reuse(std::vector<std::byte> memory) { incoming_.reuse(std::move(memory)); }
  /// Closes once everything queued is written.
  void close_after_writes();
  void close();

  [[nodiscard]] bool open() const { return wire_.socket.is_open(); }
  /// Bytes that have come so far; grows while a long payload arrives.
  [[nodiscard]] std::uint64_t received_bytes() const { return received_bytes_; }
  [[nodiscard]] bool has_unsent() const { return !queue_.empty(); }
  [[nodiscard]] std::string peer_text() const { return peer_text_; }
  /// The numeric address that this end has: "127.0.0.1".
  [[nodiscard]] const std::string& local_address() const { return local_address_; }

 private:
  struct Outgoing {
    std::vector<std::byte> head;  // header, and the payload of a control frame
    std::shared_ptr<const std::vector<std::byte>> bulk;
    std::function<void()> on_written;
    [[nodiscard]] std::size_t bytes() const { return head.size() + (bulk ? bulk->size() : 0); }
  };

  explicit Connection(ProvenSocket proven);
  /// Until it is closed, or a frame came damaged: where the next one begins is not known then.
  [[nodiscard]] bool reads() const { return open() && on_frame_ != nullptr; }
  void await_bytes();
  void read_some();
  void refuse(FrameFault fault);
  /// As Link's.
  [[nodiscard]] bool needs_checksum() const { return wire_.tls == nullptr; }
  void enqueue(Outgoing outgoing);
  void write_some();
  void go_on_writing();
  void fail(const std::string& reason, FrameFault fault);
  /// Whether TLS has something to write of its own accord.
  [[nodiscard]] bool reader_writes() const { return wire_.tls && wire_.tls->wants_write(); }

  ProvenSocket wire_;
  std::string peer_text_;
  std::string local_address_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  IncomingFrame incoming_;
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
