#include "bench/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::bench {
namespace {

constexpr int kSocketBuffer = 1 << 20;
constexpr std::size_t kPiece = 2 * 65'408;  // two segments of loopback TCP
constexpr int kPatienceMs = 60'000;

[[noreturn]] void fail(const char* what) {
  throw EnvironmentError(text("loopback: ", what, ": ", std::strerror(errno), "."),
                         "look at the machine's network and limits.");
}

void set_buffers(int fd) {
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof kSocketBuffer);
}

int make_socket(int family) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("no socket");
  set_buffers(fd);
  return fd;
}

sockaddr_in tcp_address(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    fail("the socket's path");
  }
  std::strcpy(address.sun_path, path.c_str());
  return address;
}

void wait_for(int fd, short events) {
  pollfd wait{fd, events, 0};
  const int ready = poll(&wait, 1, kPatienceMs);
  if (ready == 0) errno = ETIMEDOUT;
  if (ready <= 0 && errno != EINTR) fail("the other process");
}

/// Whether the call moved bytes; false: it would have had to wait.
bool moved(ssize_t count, std::size_t& done) {
  if (count > 0) done += static_cast<std::size_t>(count);
  if (count == 0) errno = ECONNRESET;
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) fail("the connection");
  return count > 0;
}

}  // namespace

Loopback::Listener::Listener(std::string path) : path_(std::move(path)) {
  const auto tcp = tcp_address(0);
  const auto local = path_.empty() ? sockaddr_un{} : unix_address(path_);
  fd_ = make_socket(path_.empty() ? AF_INET : AF_UNIX);
  const int bound = path_.empty()
                        ? bind(fd_, reinterpret_cast<const sockaddr*>(&tcp), sizeof tcp)
                        : bind(fd_, reinterpret_cast<const sockaddr*>(&local), sizeof local);
  if (bound != 0 || listen(fd_, 1) != 0) fail("no listening socket");
}

Loopback::Listener::~Listener() {
  close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

std::uint16_t Loopback::Listener::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Loopback::Loopback(const Listener& listener) {
  wait_for(listener.fd(), POLLIN);
  fd_ = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd_ < 0) fail("nobody connected");
  set_up();
}

Loopback::Loopback(std::uint16_t port) : fd_(make_socket(AF_INET)) {
  const auto address = tcp_address(port);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail("no connection");
  }
  set_up();
}

Loopback::Loopback(const std::string& path) : fd_(make_socket(AF_UNIX)) {
  const auto address = unix_address(path);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail("no connection");
  }
  set_up();
}

Loopback::~Loopback() { close(fd_); }

void Loopback::set_up() {
  set_buffers(fd_);
  const int on = 1;  // no effect on a Unix socket
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  out_.assign(kPiece, 1);
  in_.assign(kPiece, 0);
}

void Loopback::one_way(std::size_t bytes, bool from_here) {
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t piece = std::min(kPiece, bytes - done);
    const ssize_t count = from_here ? send(fd_, out_.data(), piece, MSG_DONTWAIT | MSG_NOSIGNAL)
                                    : recv(fd_, in_.data(), piece, MSG_DONTWAIT);
    if (!moved(count, done)) wait_for(fd_, from_here ? POLLOUT : POLLIN);
  }
  std::size_t acknowledged = 0;
  while (acknowledged == 0) {
    const ssize_t count = from_here ? recv(fd_, in_.data(), 1, MSG_DONTWAIT)
                                    : send(fd_, out_.data(), 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!moved(count, acknowledged)) wait_for(fd_, from_here ? POLLIN : POLLOUT);
  }
}

void Loopback::duplex(std::size_t bytes) {
  constexpr int kTurns = 2'000;  // without a byte, before this process sleeps
  std::size_t sent = 0;
  std::size_t received = 0;
  int turns = 0;
  while (sent < bytes || received < bytes) {
    bool progress = false;
    if (sent < bytes) {
      const std::size_t piece = std::min(kPiece, bytes - sent);
      progress |= moved(send(fd_, out_.data(), piece, MSG_DONTWAIT | MSG_NOSIGNAL), sent);
    }
    if (received < bytes) {
      const std::size_t piece = std::min(kPiece, bytes - received);
      progress |= moved(recv(fd_, in_.data(), piece, MSG_DONTWAIT), received);
    }
    turns = progress ? 0 : turns + 1;
    if (!progress) sched_yield();  // the other process may be waiting for this core
    if (turns > kTurns) wait_for(fd_, static_cast<short>(POLLIN | (sent < bytes ? POLLOUT : 0)));
  }
}

}  // namespace troupe::bench
