// Acceptor: a listening socket and the first frame of everybody who connects to it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "net/strangers.h"

namespace troupe {

using FirstFrame = Introduction<boost::asio::ip::tcp::socket>;

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

  /// Accepts from now on; `on_first_frame` runs on the context's thread.
  void start(std::function<void(FirstFrame)> on_first_frame);

 private:
  void accept_next();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  boost::asio::ip::tcp::endpoint endpoint_;
  std::optional<Strangers<boost::asio::ip::tcp::socket>> strangers_;  // from start() on
};

}  // namespace troupe
