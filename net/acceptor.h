// Acceptor: a listening socket and the first frame of everybody who connects to it.
//
// Until that frame has been read a peer is a stranger. It may cost one descriptor, kMaxStrangers at
// a time, kStrangerTime each; its frame must be a hello or a link hello with a right checksum, else
// it is closed without a word. When too many wait, the one that has waited longest goes: a worker
// sends its hello at once, so a crowd of silent connections cannot keep it out.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "net/frame.h"

namespace troupe {

inline constexpr std::size_t kMaxStrangers = 64;
inline constexpr std::chrono::milliseconds kStrangerTime{2'000};

/// Somebody who introduced himself. `fault` is none, or bad_version: then only `socket` and
/// header.version count.
struct FirstFrame {
  boost::asio::ip::tcp::socket socket;
  FrameFault fault = FrameFault::none;
  FrameHeader header;
  std::vector<std::byte> payload;
};

class Acceptor {
 public:
  /// Binds exactly this address; a host name is resolved, its first address is taken.
  /// Throws: EnvironmentError naming address and, where visible, who has the port.
  Acceptor(boost::asio::io_context& context, const std::string& host, std::uint16_t port);
  /// Takes over a listening socket, as handed down by a launcher.
  /// Throws: EnvironmentError when it is not one.
  Acceptor(boost::asio::io_context& context, int listen_fd);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  [[nodiscard]] boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }

  /// Accepts until stop(); `on_first_frame` runs on the context's thread.
  void start(std::function<void(FirstFrame)> on_first_frame);
  void stop();

 private:
  struct Stranger;
  void accept_next();
  void admit(boost::asio::ip::tcp::socket socket);
  void read_header(const std::shared_ptr<Stranger>& stranger);
  void read_payload(const std::shared_ptr<Stranger>& stranger, const FrameHeader& header);
  void hand_over(const std::shared_ptr<Stranger>& stranger, FrameFault fault,
                 const FrameHeader& header);
  void dismiss(const std::shared_ptr<Stranger>& stranger);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  boost::asio::ip::tcp::endpoint endpoint_;
  std::function<void(FirstFrame)> on_first_frame_;
  std::list<std::shared_ptr<Stranger>> strangers_;  // longest waiting first
};

}  // namespace troupe
