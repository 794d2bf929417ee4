#include "net/acceptor.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
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

struct Acceptor::Stranger {
  explicit Stranger(tcp::socket accepted)
      : socket(std::move(accepted)), timer(socket.get_executor()) {}
  tcp::socket socket;
  asio::steady_timer timer;
  std::array<std::byte, kFrameHeaderBytes> header_bytes{};
  std::vector<std::byte> payload;
  bool dismissed = false;
};

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
  on_first_frame_ = std::move(on_first_frame);
  accept_next();
}

void Acceptor::stop() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  while (!strangers_.empty()) dismiss(strangers_.front());
}

void Acceptor::accept_next() {
  acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open() || error == asio::error::operation_aborted) return;
    if (!error) {
      admit(std::move(socket));
      return accept_next();
    }
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled && acceptor_.is_open()) accept_next();
    });
  });
}

void Acceptor::admit(tcp::socket socket) {
  tune_connected(socket.native_handle());
  if (strangers_.size() >= kMaxStrangers) dismiss(strangers_.front());
  const auto stranger = std::make_shared<Stranger>(std::move(socket));
  strangers_.push_back(stranger);
  stranger->timer.expires_after(kStrangerTime);
  stranger->timer.async_wait([this, stranger](const boost::system::error_code& cancelled) {
    if (!cancelled && !stranger->dismissed) dismiss(stranger);
  });
  read_header(stranger);
}

void Acceptor::read_header(const std::shared_ptr<Stranger>& stranger) {
  asio::async_read(stranger->socket, asio::buffer(stranger->header_bytes),
                   [this, stranger](const boost::system::error_code& error, std::size_t) {
                     if (stranger->dismissed) return;
                     if (error) return dismiss(stranger);
                     FrameHeader header;
                     const FrameFault fault = decode_frame(
                         {stranger->header_bytes.data(), stranger->header_bytes.size()}, header);
                     if (fault == FrameFault::bad_version)
                       return hand_over(stranger, fault, header);
                     const bool introduces =
                         header.type == FrameType::hello || header.type == FrameType::link_hello;
                     if (fault != FrameFault::none || !introduces) return dismiss(stranger);
                     read_payload(stranger, header);
                   });
}

void Acceptor::read_payload(const std::shared_ptr<Stranger>& stranger, const FrameHeader& header) {
  stranger->payload.resize(header.payload_bytes);  // at most max_payload_bytes(hello)
  asio::async_read(stranger->socket, asio::buffer(stranger->payload),
                   [this, stranger, header](const boost::system::error_code& error, std::size_t) {
                     if (stranger->dismissed) return;
                     const Span<const std::byte> payload(stranger->payload);
                     if (error || crc32_of(payload) != header.payload_crc) return dismiss(stranger);
                     hand_over(stranger, FrameFault::none, header);
                   });
}

void Acceptor::hand_over(const std::shared_ptr<Stranger>& stranger, FrameFault fault,
                         const FrameHeader& header) {
  FirstFrame first{std::move(stranger->socket), fault, header, std::move(stranger->payload)};
  dismiss(stranger);
  on_first_frame_(std::move(first));
}

void Acceptor::dismiss(const std::shared_ptr<Stranger>& stranger) {
  stranger->dismissed = true;
  stranger->timer.cancel();
  boost::system::error_code ignored;
  stranger->socket.close(ignored);  // no answer: a scanner learns nothing
  strangers_.remove(stranger);
}

}  // namespace troupe
