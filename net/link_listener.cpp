#include "net/link_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/text.h"
#include "net/address.h"
#include "net/socket_options.h"

namespace troupe {
namespace asio = boost::asio;
using asio::local::stream_protocol;

namespace {

constexpr int kLinkBacklog = 1024;  // the kernel lowers it to net.core.somaxconn

}  // namespace

stream_protocol::endpoint local_endpoint_of(const asio::ip::tcp::endpoint& endpoint) {
  // The leading zero byte is what makes it an abstract name.
  return {std::string(1, '\0') + "troupe.link." + to_text(endpoint)};
}

std::string peer_objection(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return "the system does not report the peer's process: " +
           std::generic_category().message(errno);
  }
  if (peer.uid == ::geteuid()) return "";
  return text("process ", peer.pid, " there belongs to user ", peer.uid, ", not ", ::geteuid());
}

LinkListener::LinkListener(asio::io_context& context, const asio::ip::tcp::endpoint& endpoint,
                           std::function<void(LinkHello)> on_hello)
    : acceptor_(context), guests_([on_hello = std::move(on_hello)](LinkHello hello) {
        if (hello.is_link_hello()) on_hello(std::move(hello));  // else it is closed with its socket
      }) {
  boost::system::error_code error;
  acceptor_.open(stream_protocol(), error);
  if (!error) set_close_on_exec(acceptor_.native_handle());
  if (!error) acceptor_.bind(local_endpoint_of(endpoint), error);
  if (!error) acceptor_.listen(kLinkBacklog, error);
  if (error) {
    problem_ = text("no Unix socket can listen beside ", to_text(endpoint), ": ", error.message());
    return;
  }
  accept_next();
}

void LinkListener::accept_next() {
  acceptor_.async_accept(
      [this, alive = std::weak_ptr<char>(alive_)](const boost::system::error_code& error,
                                                  stream_protocol::socket socket) {
        if (error == asio::error::operation_aborted || alive.expired()) return;
        if (!error) {
          prepare_socket(socket.native_handle());  // unlike TCP's, it inherits no buffer sizes
          if (peer_objection(socket.native_handle()).empty()) guests_.admit(std::move(socket));
          return accept_next();
        }
        problem_ = "no Unix socket can be accepted: " + error.message();
        boost::system::error_code ignored;
        acceptor_.close(ignored);  // a later peer is refused at once and uses TCP
      });
}

}  // namespace troupe
