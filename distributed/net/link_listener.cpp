#include "troupe/distributed/net/link_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "troupe/core/secret.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/socket_options.h"

namespace troupe {
namespace asio = boost::asio;
using asio::local::stream_protocol;

namespace {

constexpr int kLinkBacklog = 1024;  // the kernel lowers it to net.core.somaxconn

std::string random_digits() {
  std::array<std::byte, kLinkNameBytes / 2> bytes{};
  fill_random({bytes.data(), bytes.size()});
  return hex_of({bytes.data(), bytes.size()});
}

}  // namespace

stream_protocol::endpoint local_endpoint_of(const std::string& digits) {
  // The leading zero byte is what makes it an abstract name.
  return {std::string(1, '\0') + "troupe.link." + digits};
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

LinkListener::LinkListener(asio::io_context& context, const Credentials& credentials,
                           std::function<void(Introduction)> on_introduction)
    : acceptor_(context),
      guests_(context.get_executor(), credentials, std::move(on_introduction)),
      digits_(random_digits()) {
  boost::system::error_code error;
  acceptor_.open(stream_protocol(), error);
  if (!error) set_close_on_exec(acceptor_.native_handle());
  if (!error) acceptor_.bind(local_endpoint_of(digits_), error);
  if (!error) acceptor_.listen(kLinkBacklog, error);
  if (!error) acceptor_.non_blocking(true, error);
  error ? give_up(error) : accept_next();
}

void LinkListener::accept_next() {
  acceptor_.async_wait(
      stream_protocol::acceptor::wait_read,
      [this, alive = std::weak_ptr<char>(alive_)](const boost::system::error_code& error) {
        if (error == asio::error::operation_aborted || alive.expired()) return;
        error ? give_up(error) : guests_.when_room([this] { accept_one(); });
      });
}

void LinkListener::accept_one() {
  boost::system::error_code error;
  stream_protocol::socket socket = acceptor_.accept(error);
  if (error && error != asio::error::would_block) return give_up(error);
  if (!error) {
    prepare_socket(socket.native_handle());  // unlike TCP's, it inherits no buffer sizes
    if (peer_objection(socket.native_handle()).empty()) guests_.admit(std::move(socket));
  }
  accept_next();
}

void LinkListener::give_up(const boost::system::error_code& error) {
  problem_ = "no Unix socket can listen: " + error.message();
  digits_.clear();
  boost::system::error_code ignored;
  acceptor_.close(ignored);  // a later peer is refused at once and uses TCP
}

}  // namespace troupe
