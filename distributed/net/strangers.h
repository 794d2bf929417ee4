// Strangers: peers that have connected and not yet identified themselves.
//
// A peer is a stranger until it has proven that it belongs to the job and its first frame has been
// read. It may cost one descriptor, max_strangers() at a time, kStrangerTime each; nothing of it is
// logged, and whatever is wrong, it is closed without a word. What its first frame claims must be
// what it has proven.
//
// When all places are taken, one that has not even opened the proof makes room, the one that has
// waited longest first: the processes of the job do that at once, so that a crowd of silent
// connections cannot keep them out. Those who have may wait for an answer that travels far: they
// keep their place for kProofGrace, and meanwhile nobody else is accepted.
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "troupe/distributed/net/credentials.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/handshake.h"

namespace troupe {

inline constexpr std::chrono::milliseconds kStrangerTime{2'000};
inline constexpr std::chrono::milliseconds kProofGrace{200};
/// 64, but at most a quarter of the descriptors that this process may open: those who wait at both
/// its doors, TCP and Unix, leave it the other half.
[[nodiscard]] std::size_t max_strangers();

/// Somebody who has proven who he is, and introduced himself. `fault` is none, or bad_version: then
/// only `from` and header.version count.
struct Introduction {
  ProvenSocket from;
  FrameFault fault = FrameFault::none;
  FrameHeader header;
  std::vector<std::byte> payload;

  [[nodiscard]] Purpose purpose() const { return from.identity.purpose; }
};

class Strangers {
 public:
  using Listener = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

  Strangers(const boost::asio::any_io_executor& executor, Credentials credentials,
            std::function<void(Introduction)> on_introduction);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  void admit(StreamSocket socket);
  /// Admits whom `listener` accepts, whenever there is room. Where it cannot accept it is closed,
  /// and `on_fault` told; without that it tries again a little later.
  void admit_from(Listener listener,
                  std::function<void(const boost::system::error_code&)> on_fault = nullptr);

 private:
  struct Stranger;
  void read_header(const std::shared_ptr<Stranger>& stranger);
  void read_payload(const std::shared_ptr<Stranger>& stranger, const FrameHeader& header);
  void hand_over(const std::shared_ptr<Stranger>& stranger, FrameFault fault,
                 const FrameHeader& header);
  void dismiss(std::shared_ptr<Stranger> stranger);
  void accept_next();
  void make_room();
  void accept_one();

  const Credentials credentials_;
  const std::function<void(Introduction)> on_introduction_;
  const std::size_t max_waiting_ = max_strangers();
  std::list<std::shared_ptr<Stranger>> waiting_;  // longest first
  Listener listener_;
  std::function<void(const boost::system::error_code&)> on_fault_;
  bool is_knocking_ = false;        // somebody waits to be accepted
  boost::asio::steady_timer look_;  // for room, or at the listener again
  // Gone with this object: a handler that runs later, because it was queued before, sees that.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace troupe
