#include "troupe/distributed/net/socket_options.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <system_error>

#include "troupe/distributed/net/address.h"

namespace troupe {

void set_close_on_exec(int fd) noexcept { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

void prepare_socket(int fd) noexcept {
  // A kernel that grants less is not an error; the links are then only slower.
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBufferBytes, sizeof(kSocketBufferBytes));
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBufferBytes, sizeof(kSocketBufferBytes));
  set_close_on_exec(fd);
}

int socket_family(int fd) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  const bool found = ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  return found ? address.ss_family : AF_UNSPEC;
}

std::string tune_connected(int fd) {
  if (socket_family(fd) != AF_UNIX) {
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    set_close_on_exec(fd);
    return "";
  }
  prepare_socket(fd);  // unlike TCP's, an accepted one inherits no buffer sizes
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return "the system does not report the peer's process: " +
           std::generic_category().message(errno);
  }
  if (peer.uid == ::geteuid()) return "";
  return text("process ", peer.pid, " there belongs to user ", peer.uid, ", not ", ::geteuid());
}

std::string numeric_address(int fd) {
  boost::asio::ip::tcp::endpoint endpoint;
  socklen_t size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(fd, endpoint.data(), &size) != 0) return "";
  endpoint.resize(size);
  return endpoint.address().to_string();
}

std::string peer_address(int fd) {
  boost::asio::ip::tcp::endpoint endpoint;
  socklen_t size = static_cast<socklen_t>(endpoint.capacity());
  if (::getpeername(fd, endpoint.data(), &size) != 0) return "";
  const bool is_tcp =
      endpoint.data()->sa_family == AF_INET || endpoint.data()->sa_family == AF_INET6;
  if (!is_tcp) return "";
  endpoint.resize(size);
  return to_text(endpoint);
}

ssize_t send_parts(int fd, Span<const std::byte> first, Span<const std::byte> second,
                   Span<const std::byte> third) noexcept {
  std::array<iovec, 3> parts{};
  std::size_t count = 0;
  for (const Span<const std::byte>& part : {first, second, third}) {
    if (part.empty()) continue;
    parts[count].iov_base = const_cast<std::byte*>(part.data());  // NOLINT: it is only read
    parts[count++].iov_len = part.size();
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace troupe
