// RedirectedConnect: sends this program's connections to another port, so that a proxy stands in
// between although all addresses are the job's own. Include it in one file of a program: it
// replaces connect(2).
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace troupe::testing {

/// While it lives, connections to port `from` are made to `to`.
class RedirectedConnect {
 public:
  RedirectedConnect(std::uint16_t from, std::uint16_t to) {
    ports() = (std::uint32_t{from} << 16) | to;
  }
  ~RedirectedConnect() { ports() = 0; }
  RedirectedConnect(const RedirectedConnect&) = delete;
  RedirectedConnect& operator=(const RedirectedConnect&) = delete;

  static std::atomic<std::uint32_t>& ports() {
    static std::atomic<std::uint32_t> both{0};
    return both;
  }
};

}  // namespace troupe::testing

// NOLINTNEXTLINE: the C library's
extern "C" int connect(int fd, const sockaddr* address, socklen_t length) {
  const std::uint32_t both = troupe::testing::RedirectedConnect::ports();
  sockaddr_in other{};
  if (both != 0 && address->sa_family == AF_INET && length >= sizeof(other)) {
    std::memcpy(&other, address, sizeof(other));
    if (ntohs(other.sin_port) == both >> 16) {
      other.sin_port = htons(static_cast<std::uint16_t>(both & 0xffff));
      return static_cast<int>(::syscall(SYS_connect, fd, &other, sizeof(other)));
    }
  }
  return static_cast<int>(::syscall(SYS_connect, fd, address, length));
}
