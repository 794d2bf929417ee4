#include "net/acceptor.h"

#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "net/address.h"
#include "net/port_owner.h"
#include "net/socket_options.h"

namespace troupe {
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr int kBacklog = 1024;  // the kernel lowers it to net.core.somaxconn
// After an accept that failed (no descriptor left): try again when some may be free.
constexpr std::chrono::milliseconds kAcceptPause{100};

tcp::endpoint resolve_own(asio::io_context& context, const std::string& host, std::uint16_t port) {
  boost::system::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    throw EnvironmentError(text("the address ", to_text(host, port),
                                " of this worker cannot be resolved: ", error.message(), "."),
                           "correct the host name in the cluster description.");
  }
  return found.begin()->endpoint();
}

[[noreturn]] void throw_bind_failed(const tcp::endpoint& wanted,
                                    const boost::system::error_code& error) {
  const std::string where = to_text(wanted);
  if (error == asio::error::address_in_use) {
    const std::string owner = describe_port_owner(wanted.port());
    throw EnvironmentError(text("cannot listen on ", where, ": the port is taken",
                                owner.empty() ? std::string() : " by " + owner, "."),
                           "stop the program that has it, or give this task another port.");
  }
  throw EnvironmentError(text("cannot listen on ", where, ": ", error.message(), "."),
                         "give this task an address that belongs to this machine.");
}

}  // namespace

Acceptor::Acceptor(asio::io_context& context, const std::string& host, std::uint16_t port)
    : acceptor_(context), pause_(context) {
  const tcp::endpoint wanted = resolve_own(context, host, port);
  boost::system::error_code error;
  acceptor_.open(wanted.protocol(), error);
  if (error) throw_bind_failed(wanted, error);
  prepare_socket(acceptor_.native_handle());
  // A port whose last owner's connections still linger (TIME_WAIT) may be used again at once.
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor_.bind(wanted, error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (error) throw_bind_failed(wanted, error);
  endpoint_ = acceptor_.local_endpoint();
}

Acceptor::Acceptor(asio::io_context& context, int listen_fd) : acceptor_(context), pause_(context) {
  int listening = 0;
  socklen_t size = sizeof(listening);
  const bool is_listener =
      ::getsockopt(listen_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
  boost::system::error_code error;
  if (is_listener) {
    acceptor_.assign(socket_family(listen_fd) == AF_INET6 ? tcp::v6() : tcp::v4(), listen_fd,
                     error);
  }
  if (!is_listener || error) {
    throw EnvironmentError(text("descriptor ", listen_fd, " is not a listening TCP socket."),
                           "let the launcher hand down the socket that it listens on.");
  }
  prepare_socket(listen_fd);
  // For a later training of this process, which binds the port anew: connections take this on from
  // the socket that accepted them, and linger (TIME_WAIT).
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor_.listen(kBacklog, error);  // again: the launcher's backlog may be short
  endpoint_ = acceptor_.local_endpoint();
}

void Acceptor::start(std::function<void(FirstFrame)> on_first_frame) {
  strangers_.emplace(std::move(on_first_frame));
  accept_next();
}

void Acceptor::accept_next() {
  acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) return run_after(pause_, kAcceptPause, [this] { accept_next(); });
    tune_connected(socket.native_handle());
    strangers_->admit(std::move(socket));
    accept_next();
  });
}

}  // namespace troupe
