// LinkListener: where workers of the same machine make their data links, as Unix sockets.
//
// Its name is in Linux's abstract namespace and follows from the TCP endpoint that the worker is
// known by: it belongs to the same network namespace as that port, and nothing is left to clean up.
// Both ends ask the kernel who the other is (SO_PEERCRED) before a byte is sent or read: a process
// of another user that sits on the name learns nothing. Thread rule: the network thread only.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <string>

#include "net/strangers.h"

namespace troupe {

/// A socket of a data link, TCP or Unix.
using LinkSocket = boost::asio::generic::stream_protocol::socket;

/// A first frame of type link_hello, and the socket that it came by.
using LinkHello = Introduction<LinkSocket>;

/// The Unix endpoint that belongs to a TCP endpoint.
[[nodiscard]] boost::asio::local::stream_protocol::endpoint local_endpoint_of(
    const boost::asio::ip::tcp::endpoint& endpoint);

/// "" when the process at the other end of a connected Unix socket runs as this process's user,
/// else why it is not trusted.
[[nodiscard]] std::string peer_objection(int fd);

class LinkListener {
 public:
  /// Listens at local_endpoint_of(endpoint); where that fails, problem() says why and no peer
  /// connects. `on_hello` runs on the context's thread.
  LinkListener(boost::asio::io_context& context, const boost::asio::ip::tcp::endpoint& endpoint,
               std::function<void(LinkHello)> on_hello);
  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void accept_next();

  boost::asio::local::stream_protocol::acceptor acceptor_;
  Strangers<LinkSocket> guests_;
  std::string problem_;
  // Gone with this object: a handler that runs later, because it was queued before, sees that.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace troupe
