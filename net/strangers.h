// Strangers: those who have connected and not yet said who they are.
//
// Until its first frame has been read a peer is a stranger. It may cost one descriptor,
// max_strangers() at a time, kStrangerTime each; its frame must be a hello or a link hello with a
// right checksum, else it is closed without a word. When too many wait, the one that has waited
// longest goes: a worker sends its hello at once, so a crowd of silent connections cannot keep it
// out.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "net/frame.h"
#include "net/timer.h"

namespace troupe {

inline constexpr std::chrono::milliseconds kStrangerTime{2'000};
/// 64, but at most a quarter of the descriptors that this process may open: those who wait at both
/// its doors, TCP and Unix, leave it the other half.
[[nodiscard]] inline std::size_t max_strangers() {
  rlimit files{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &files) == 0;
  return known ? std::clamp<std::size_t>(files.rlim_cur / 4, 1, 64) : 1;
}

/// Somebody who introduced himself. `fault` is none, or bad_version: then only `socket` and
/// header.version count.
template <class Socket>
struct Introduction {
  Socket socket;
  FrameFault fault = FrameFault::none;
  FrameHeader header;
  std::vector<std::byte> payload;

  [[nodiscard]] bool is_link_hello() const {
    return fault == FrameFault::none && header.type == FrameType::link_hello;
  }
  /// By a socket of another type, which can be made from this one.
  template <class Other>
  operator Introduction<Other>() && {  // NOLINT: the same thing
    return {std::move(socket), fault, header, std::move(payload)};
  }
};

/// Thread rule: the network thread only.
template <class Socket>
class Strangers {
 public:
  explicit Strangers(std::function<void(Introduction<Socket>)> on_introduction)
      : on_introduction_(std::move(on_introduction)) {}
  ~Strangers() {
    while (!waiting_.empty()) dismiss(waiting_.front());
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  void admit(Socket socket) {
    if (waiting_.size() >= max_waiting_) dismiss(waiting_.front());
    const auto stranger = std::make_shared<Stranger>(std::move(socket));
    waiting_.push_back(stranger);
    run_after(stranger->timer, kStrangerTime, [this, stranger] {
      if (!stranger->dismissed) dismiss(stranger);
    });
    read_header(stranger);
  }

 private:
  struct Stranger {
    explicit Stranger(Socket accepted)
        : socket(std::move(accepted)), timer(socket.get_executor()) {}
    Socket socket;
    boost::asio::steady_timer timer;
    std::array<std::byte, kFrameHeaderBytes> header_bytes{};
    std::vector<std::byte> payload;
    bool dismissed = false;
  };

  void read_header(const std::shared_ptr<Stranger>& stranger) {
    boost::asio::async_read(
        stranger->socket, boost::asio::buffer(stranger->header_bytes),
        [this, stranger](const boost::system::error_code& error, std::size_t) {
          if (stranger->dismissed) return;
          if (error) return dismiss(stranger);
          FrameHeader header;
          const FrameFault fault =
              decode_frame({stranger->header_bytes.data(), stranger->header_bytes.size()}, header);
          if (fault == FrameFault::bad_version) return hand_over(stranger, fault, header);
          const bool introduces =
              header.type == FrameType::hello || header.type == FrameType::link_hello;
          if (fault != FrameFault::none || !introduces) return dismiss(stranger);
          read_payload(stranger, header);
        });
  }

  void read_payload(const std::shared_ptr<Stranger>& stranger, const FrameHeader& header) {
    stranger->payload.resize(header.payload_bytes);  // at most max_payload_bytes(hello)
    boost::asio::async_read(
        stranger->socket, boost::asio::buffer(stranger->payload),
        [this, stranger, header](const boost::system::error_code& error, std::size_t) {
          if (stranger->dismissed) return;
          const Span<const std::byte> payload(stranger->payload);
          if (error || crc32_of(payload) != header.payload_crc) return dismiss(stranger);
          hand_over(stranger, FrameFault::none, header);
        });
  }

  void hand_over(const std::shared_ptr<Stranger>& stranger, FrameFault fault,
                 const FrameHeader& header) {
    Introduction<Socket> first{std::move(stranger->socket), fault, header,
                               std::move(stranger->payload)};
    dismiss(stranger);
    on_introduction_(std::move(first));
  }

  // A handler of a dismissed stranger touches nothing but the stranger: this object may be gone.
  void dismiss(std::shared_ptr<Stranger> stranger) {
    stranger->dismissed = true;
    stranger->timer.cancel();
    boost::system::error_code ignored;
    stranger->socket.close(ignored);  // no answer: a scanner learns nothing
    waiting_.remove(stranger);
  }

  const std::function<void(Introduction<Socket>)> on_introduction_;
  const std::size_t max_waiting_ = max_strangers();
  std::list<std::shared_ptr<Stranger>> waiting_;  // longest first
};

}  // namespace troupe
