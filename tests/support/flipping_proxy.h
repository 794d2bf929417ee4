// FlippingProxy: stands between two processes and passes every byte on, but for one bit. The place
// is chosen by the frame that it is in, so what comes before the first frame does not matter.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/run_ranks.h"
#include "troupe/distributed/net/frame.h"

namespace troupe::testing {

/// Which bit is turned over.
struct Flip {
  FrameType type = FrameType::data;
  std::uint32_t from = 0;           // the rank that sends the frame
  std::uint64_t least_payload = 1;  // of a frame that counts
  int skip = 0;                     // such frames that pass unharmed before
  bool in_header = false;
  bool holds_seal = false;  // what comes after a short payload comes 100 ms later
  std::uint64_t bit = 0;  // counted from the header's or the payload's beginning, modulo its length
};

class FlippingProxy {
 public:
  /// Connections to its port are connections to `port` of this machine.
  FlippingProxy(std::uint16_t port, const Flip& flip) : to_(port), flip_(flip) {
    port_ = listener_.port();
    acceptor_ = std::thread([this, fd = listener_.release()] { accept_all(fd); });
  }
  ~FlippingProxy() {
    stopping_ = true;
    close_all();
    const int wake = connect_to(port_);
    acceptor_.join();
    if (wake >= 0) ::close(wake);
    for (std::thread& thread : pumps_) thread.join();
    for (const int fd : fds_) ::close(fd);
  }
  FlippingProxy(const FlippingProxy&) = delete;
  FlippingProxy& operator=(const FlippingProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] bool has_flipped() const { return flipped_; }

 private:
  /// One direction of one connection.
  struct Flow {
    std::vector<std::byte> seen;  // may be the beginning of a header
    std::uint64_t payload_left = 0;
    std::uint64_t flip_at = UINT64_MAX;  // bytes of payload before the one to damage
    bool holds = false;                  // the seal that is in the bytes at hand
  };

  static int connect_to(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    // The system call itself: connect() may lead here (redirected_connect.h).
    if (::syscall(SYS_connect, fd, &address, sizeof(address)) == 0) return fd;
    ::close(fd);
    return -1;
  }

  void accept_all(int listener) {
    for (;;) {
      const int in = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (in < 0 || stopping_) {
        if (in >= 0) ::close(in);
        break;
      }
      fds_.push_back(in);
      const int out = connect_to(to_);
      if (out < 0) {
        ::shutdown(in, SHUT_RDWR);
        continue;
      }
      fds_.push_back(out);
      pumps_.emplace_back([this, in, out] { pump(in, out); });
      pumps_.emplace_back([this, in, out] { pump(out, in); });
    }
    ::close(listener);
  }

  void close_all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int fd : fds_) ::shutdown(fd, SHUT_RDWR);
  }

  void pump(int from, int to) {
    Flow flow;
    std::vector<std::byte> buffer(std::size_t{1} << 16);
    for (;;) {
      const ssize_t got = ::read(from, buffer.data(), buffer.size());
      if (got <= 0) break;
      std::vector<std::byte> out;
      for (ssize_t i = 0; i < got; ++i) pass(flow, buffer[static_cast<std::size_t>(i)], out);
      const std::size_t held = std::exchange(flow.holds, false) ? std::min(out.size(), kSeal) : 0;
      send_all(to, out.data(), out.size() - held);
      if (held == 0) continue;
      take_time(std::chrono::milliseconds(100));
      send_all(to, out.data() + out.size() - held, held);
    }
    ::shutdown(from, SHUT_RDWR);
    ::shutdown(to, SHUT_RDWR);
  }

  static void send_all(int to, const std::byte* bytes, std::size_t count) {
    for (std::size_t at = 0; at < count;) {
      const ssize_t put = ::send(to, bytes + at, count - at, MSG_NOSIGNAL);
      if (put <= 0) break;
      at += static_cast<std::size_t>(put);
    }
  }

  void pass(Flow& flow, std::byte byte, std::vector<std::byte>& out) {
    if (flow.payload_left > 0) {
      --flow.payload_left;
      if (flow.flip_at == 0) {
        byte ^= static_cast<std::byte>(1U << (flip_.bit % 8));
        flow.holds = flip_.holds_seal;
      }
      --flow.flip_at;
      return out.push_back(byte);
    }
    if (!keeps_headers()) out.push_back(byte);
    look(flow, byte, out);
  }

  /// Looks for a header in what has come. It is kept back until it is whole only where a bit of it
  /// is to be turned over: in an encrypted message the last byte may look like the first of a
  /// header, and nothing more comes until the other end has it.
  [[nodiscard]] bool keeps_headers() const { return flip_.in_header; }

  void look(Flow& flow, std::byte byte, std::vector<std::byte>& out) {
    flow.seen.push_back(byte);
    static constexpr char kMagic[] = {'T', 'R', 'U', 'P'};
    const std::size_t known = std::min(flow.seen.size(), sizeof(kMagic));
    if (std::memcmp(flow.seen.data(), kMagic, known) != 0) return release(flow, out);
    if (flow.seen.size() < kFrameHeaderBytes) return;
    FrameHeader header;
    if (decode_frame({flow.seen.data(), flow.seen.size()}, header) != FrameFault::none) {
      return release(flow, out);  // a message of the proof, which begins alike
    }
    flow.payload_left = header.payload_bytes;
    flow.flip_at = UINT64_MAX;
    choose(header, flow);
    if (keeps_headers()) out.insert(out.end(), flow.seen.begin(), flow.seen.end());
    flow.seen.clear();
  }

  /// No header begins at the first byte seen: one may begin at another.
  void release(Flow& flow, std::vector<std::byte>& out) {
    const std::vector<std::byte> rest(flow.seen.begin() + 1, flow.seen.end());
    if (keeps_headers()) out.push_back(flow.seen.front());
    flow.seen.clear();
    for (const std::byte byte : rest) look(flow, byte, out);
  }

  void choose(const FrameHeader& header, Flow& flow) {
    if (header.type != flip_.type || header.rank != flip_.from ||
        header.payload_bytes < flip_.least_payload || seen_++ != flip_.skip) {
      return;
    }
    flipped_ = true;
    const std::uint64_t length = flip_.in_header ? kFrameHeaderBytes : header.payload_bytes.value();
    const std::uint64_t at = flip_.bit / 8 % length;
    if (!flip_.in_header) {
      flow.flip_at = at;
    } else {
      flow.seen[at] ^= static_cast<std::byte>(1U << (flip_.bit % 8));
    }
  }

  static constexpr std::size_t kSeal = 4;  // bytes

  const std::uint16_t to_;
  const Flip flip_;
  std::uint16_t port_ = 0;
  std::atomic<int> seen_{0};
  std::atomic<bool> flipped_{false};
  std::atomic<bool> stopping_{false};
  LoopbackListener listener_;
  std::mutex mutex_;
  std::vector<int> fds_;
  std::vector<std::thread> pumps_;
  std::thread acceptor_;
};

}  // namespace troupe::testing
