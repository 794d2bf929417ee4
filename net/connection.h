// Connection: frames over one control connection, asynchronously.
//
// Thread rule: the network thread only. The write queue is bounded; a peer that does not read is
// closed, not waited for. Both callbacks are dropped by close().
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/frame.h"

namespace troupe {

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
  /// Closes once everything queued is written.
  void close_after_writes();
  void close();

  [[nodiscard]] bool open() const { return socket_.is_open(); }
  [[nodiscard]] bool has_unsent() const { return !queue_.empty(); }
  [[nodiscard]] std::string peer_text() const { return peer_text_; }
  [[nodiscard]] const boost::asio::ip::tcp::socket& socket() const { return socket_; }

 private:
  explicit Connection(boost::asio::ip::tcp::socket socket);
  void read_header();
  void read_payload();
  void deliver();
  void write_next();
  void fail(const std::string& reason, FrameFault fault);

  boost::asio::ip::tcp::socket socket_;
  std::string peer_text_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
  FrameHeader header_;
  std::vector<std::byte> payload_;
  std::deque<std::vector<std::byte>> queue_;
  std::size_t queued_bytes_ = 0;
  bool closing_ = false;
};

}  // namespace troupe
