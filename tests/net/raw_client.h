// RawClient: a peer that says what the test wants, over a plain blocking socket with a time limit.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "troupe/core/checksum.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/proof.h"

namespace troupe::testing {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const timeval limit{60, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    const int yes = 1;  // what is sent arrives at once, and before what is sent later elsewhere
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("the test cannot connect");
    }
  }
  ~RawClient() { ::close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& bytes) {
    // The other side may have closed; what it answers is what the test looks at.
    [[maybe_unused]] const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void send_frame(FrameHeader header, const std::string& payload) {
    header.payload_bytes = payload.size();
    const Span<const std::byte> body(reinterpret_cast<const std::byte*>(payload.data()),
                                     payload.size());
    header.payload_checksum = checksum_of(body);
    const auto head = encode_frame(header);
    send(std::string(reinterpret_cast<const char*>(head.data()), head.size()) + payload);
  }
  void send(const std::vector<std::byte>& bytes) {
    send(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  /// Proves to be `identity.client`. False: the other side closes, or proves nothing.
  bool prove(const Identity& identity, const Secret& secret = *test_secret()) {
    Proof proof(secret, identity);
    while (proof.state() == Proof::State::going) {
      send(proof.give());
      const std::string answer = read(proof.awaited());
      if (answer.size() < proof.awaited()) return false;
      proof.take({reinterpret_cast<const std::byte*>(answer.data()), answer.size()});
    }
    send(proof.give());
    return proof.state() == Proof::State::proven;
  }
  /// Everything until the other side closes.
  [[nodiscard]] std::string read_to_end() {
    std::string all;
    char buffer[4096];
    for (;;) {
      const auto got = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        throw std::runtime_error("the other side does not close");
      }
      if (got <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(got));
    }
  }

  /// `count` bytes; fewer when the other side closes or is silent for too long.
  [[nodiscard]] std::string read(std::size_t count) {
    std::string all(count, '\0');
    std::size_t have = 0;
    while (have < count) {
      const auto got = ::recv(fd_, all.data() + have, count - have, 0);
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    all.resize(have);
    return all;
  }
  /// What comes next; "" when the other side closes or is silent for too long.
  [[nodiscard]] std::string read_some() {
    char buffer[4096];
    const auto got = ::recv(fd_, buffer, sizeof(buffer), 0);
    return got <= 0 ? "" : std::string(buffer, static_cast<std::size_t>(got));
  }

 private:
  int fd_;
};

/// What a worker of `cluster` proves to the chief.
inline Identity control_identity(const Cluster& cluster) {
  return {Purpose::control, cluster.generation, cluster.task(), cluster.members[0].task};
}

}  // namespace troupe::testing
