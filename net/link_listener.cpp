#include "net/link_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
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
// Guests are of our own user and say their hello at once; a crowd of them is a mistake.
constexpr std::size_t kMaxGuests = 64;
constexpr std::chrono::milliseconds kGuestTime{2'000};
constexpr std::size_t kSessionBytes = 16;

}  // namespace

stream_protocol::endpoint local_endpoint_of(const asio::ip::tcp::endpoint& endpoint) {
  // The leading zero byte is what makes it an abstract name.
  return {std::string(1, '\0') + "troupe.link." + to_text(endpoint)};
}

std::string peer_objection(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return "the system does not say whose process is there: " +
           std::generic_category().message(errno);
  }
  if (peer.uid == ::geteuid()) return "";
  return text("process ", peer.pid, " there belongs to user ", peer.uid, ", not ", ::geteuid());
}

struct LinkListener::Guest {
  explicit Guest(LinkSocket accepted) : socket(std::move(accepted)), timer(socket.get_executor()) {}
  LinkSocket socket;
  asio::steady_timer timer;
  std::array<std::byte, kFrameHeaderBytes + kSessionBytes> bytes{};
  bool dismissed = false;
};

LinkListener::LinkListener(asio::io_context& context, const asio::ip::tcp::endpoint& endpoint,
                           std::function<void(LinkHello)> on_hello)
    : context_(context), acceptor_(context), on_hello_(std::move(on_hello)) {
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

LinkListener::~LinkListener() {
  while (!guests_.empty()) dismiss(guests_.front());
}

void LinkListener::accept_next() {
  acceptor_.async_accept(
      [this, alive = std::weak_ptr<char>(alive_)](const boost::system::error_code& error,
                                                  stream_protocol::socket socket) {
        if (error == asio::error::operation_aborted || alive.expired()) return;
        if (!error) {
          admit(std::move(socket));
          return accept_next();
        }
        problem_ = "no Unix socket can be accepted: " + error.message();
        boost::system::error_code ignored;
        acceptor_.close(ignored);  // whoever comes now is refused at once, and uses TCP
      });
}

void LinkListener::admit(LinkSocket socket) {
  prepare_socket(socket.native_handle());  // unlike TCP's, it inherits no buffer sizes
  if (!peer_objection(socket.native_handle()).empty()) return;
  if (guests_.size() >= kMaxGuests) dismiss(guests_.front());
  const auto guest = std::make_shared<Guest>(std::move(socket));
  guests_.push_back(guest);
  guest->timer.expires_after(kGuestTime);
  guest->timer.async_wait([this, guest](const boost::system::error_code& cancelled) {
    if (!cancelled && !guest->dismissed) dismiss(guest);
  });
  read_hello(guest);
}

void LinkListener::read_hello(const std::shared_ptr<Guest>& guest) {
  asio::async_read(
      guest->socket, asio::buffer(guest->bytes),
      [this, guest](const boost::system::error_code& error, std::size_t) {
        if (guest->dismissed) return;
        FrameHeader header;
        const Span<const std::byte> bytes(guest->bytes.data(), guest->bytes.size());
        const auto payload = bytes.subspan(kFrameHeaderBytes, kSessionBytes);
        const bool introduces =
            !error &&
            decode_frame(bytes.subspan(0, kFrameHeaderBytes), header) == FrameFault::none &&
            header.type == FrameType::link_hello && header.payload_bytes == kSessionBytes &&
            crc32_of(payload) == header.payload_crc;
        if (!introduces) return dismiss(guest);
        LinkHello hello{std::move(guest->socket), header, {payload.begin(), payload.end()}};
        dismiss(guest);
        on_hello_(std::move(hello));
      });
}

// A handler of a dismissed guest touches nothing but the guest: the listener may be gone.
void LinkListener::dismiss(std::shared_ptr<Guest> guest) {
  guest->dismissed = true;
  guest->timer.cancel();
  boost::system::error_code ignored;
  guest->socket.close(ignored);
  guests_.remove(guest);
}

}  // namespace troupe
