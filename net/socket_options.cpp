#include "net/socket_options.h"

#include <fcntl.h>
#include <sys/socket.h>

namespace troupe {

void set_close_on_exec(int fd) noexcept { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

void prepare_socket(int fd) noexcept {
  // A kernel that grants less is not an error; the links are then only slower.
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBufferBytes, sizeof(kSocketBufferBytes));
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBufferBytes, sizeof(kSocketBufferBytes));
  set_close_on_exec(fd);
}

void tune_connected(boost::asio::ip::tcp::socket& socket) noexcept {
  boost::system::error_code ignored;
  socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  set_close_on_exec(socket.native_handle());
}

bool is_ipv6_socket(int fd) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == AF_INET6;
}

}  // namespace troupe
