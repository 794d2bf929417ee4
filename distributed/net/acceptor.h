// Acceptor: a listening socket and the first frame of each process of the job that connects to it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "troupe/distributed/net/strangers.h"

namespace troupe {

class Acceptor {
 public:
  /// Binds exactly this address; a host name is resolved, its first address is taken. A scheduler
  /// may publish the name of a process only after it has started it, or for a while still that of
  /// its predecessor: a name without an address, or with one of another machine, is looked up again
  /// until `patience` is over, with a line in the log every 5 seconds.
  /// Blocks: for a name, at most `patience` and one look-up more.
  /// Throws: EnvironmentError naming address and, where visible, the process that has the port;
  /// RendezvousError: the name did not become this machine's.
  Acceptor(boost::asio::io_context& context, const std::string& host, std::uint16_t port,
           std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  /// Takes over a listening socket, as handed down by a launcher.
  /// Throws: EnvironmentError when it is not one.
  Acceptor(boost::asio::io_context& context, int listen_fd);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  [[nodiscard]] boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }

  /// Accepts from now on who proves to belong to the job; `on_introduction` runs on the context's
  /// thread.
  void start(const Credentials& credentials, std::function<void(Introduction)> on_introduction);

 private:
  [[nodiscard]] std::string try_to_listen(const std::string& host, std::uint16_t port);

  boost::asio::ip::tcp::acceptor acceptor_;  // until start()
  boost::asio::ip::tcp::endpoint endpoint_;
  std::optional<Strangers> strangers_;  // from start() on
};

}  // namespace troupe
