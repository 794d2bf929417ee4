#include "troupe/distributed/net/strangers.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <utility>

#include "troupe/core/checksum.h"
#include "troupe/distributed/net/socket_options.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

using StrangerClock = std::chrono::steady_clock;

// After an accept that failed (no descriptor left): try again when some may be free.
constexpr std::chrono::milliseconds kAcceptPause{100};

// Who connects says what for, and its first frame is that of who connects for it.
bool is_first_frame(const FrameHeader& header, const Identity& proven) {
  const bool is_link = proven.purpose == Purpose::link;
  return header.type == (is_link ? FrameType::link_hello : FrameType::hello) &&
         header.generation == proven.generation;
}

}  // namespace

std::size_t max_strangers() {
  rlimit files{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &files) == 0;
  return known ? std::clamp<std::size_t>(files.rlim_cur / 4, 1, 64) : 1;
}

struct Strangers::Stranger {
  explicit Stranger(StreamSocket& accepted) : timer(accepted.get_executor()) {}
  // Of those who have opened the proof, that a little later.
  [[nodiscard]] StrangerClock::time_point may_go_from() const {
    const bool has_opened = proven || handshake->has_opened();
    return has_opened ? came + kProofGrace : came;
  }
  const StrangerClock::time_point came = StrangerClock::now();
  std::shared_ptr<Handshake> handshake;
  std::unique_ptr<ProvenSocket> proven;  // null: not yet
  boost::asio::steady_timer timer;
  std::array<std::byte, kFrameHeaderBytes> header_bytes{};
  std::vector<std::byte> payload;
  bool dismissed = false;
};

Strangers::Strangers(const boost::asio::any_io_executor& executor, Credentials credentials,
                     std::function<void(Introduction)> on_introduction)
    : credentials_(std::move(credentials)),
      on_introduction_(std::move(on_introduction)),
      listener_(executor),
      look_(executor) {}

Strangers::~Strangers() {
  is_knocking_ = false;
  while (!waiting_.empty()) dismiss(waiting_.front());
}

void Strangers::admit(StreamSocket socket) {
  const auto stranger = std::make_shared<Stranger>(socket);
  waiting_.push_back(stranger);
  run_after(stranger->timer, kStrangerTime, [this, stranger] {
    if (!stranger->dismissed) dismiss(stranger);
  });
  // The handshake is the stranger's, and does not outlive it.
  const std::weak_ptr<Stranger> whose = stranger;
  stranger->handshake = Handshake::answer(
      std::move(socket), credentials_, kStrangerTime,
      [this, whose](ProvenSocket proven) {
        const auto known = whose.lock();
        if (!known || known->dismissed) return;
        known->proven = std::make_unique<ProvenSocket>(std::move(proven));
        read_header(known);
      },
      [this, whose](Obstacle, const std::string&) {
        const auto known = whose.lock();
        if (known && !known->dismissed) dismiss(known);
      });
}

void Strangers::read_header(const std::shared_ptr<Stranger>& stranger) {
  const Span<std::byte> room(stranger->header_bytes.data(), stranger->header_bytes.size());
  read_fully(*stranger->proven, room, [this, stranger](bool complete) {
    if (stranger->dismissed) return;
    if (!complete) return dismiss(stranger);
    FrameHeader header;
    const FrameFault fault =
        decode_frame({stranger->header_bytes.data(), stranger->header_bytes.size()}, header);
    if (fault == FrameFault::bad_version) return hand_over(stranger, fault, header);
    const bool fits =
        fault == FrameFault::none && is_first_frame(header, stranger->proven->identity);
    fits ? read_payload(stranger, header) : dismiss(stranger);
  });
}

void Strangers::read_payload(const std::shared_ptr<Stranger>& stranger, const FrameHeader& header) {
  stranger->payload.resize(header.payload_bytes);  // at most max_payload_bytes(hello)
  read_fully(*stranger->proven, Span<std::byte>(stranger->payload),
             [this, stranger, header](bool complete) {
               if (stranger->dismissed) return;
               const Span<const std::byte> payload(stranger->payload);
               if (!complete || checksum_of(payload) != header.payload_checksum)
                 return dismiss(stranger);
               hand_over(stranger, FrameFault::none, header);
             });
}

void Strangers::hand_over(const std::shared_ptr<Stranger>& stranger, FrameFault fault,
                          const FrameHeader& header) {
  Introduction first{std::move(*stranger->proven), fault, header, std::move(stranger->payload)};
  dismiss(stranger);
  on_introduction_(std::move(first));
}

// A handler of a dismissed stranger touches nothing but the stranger: this object may be gone.
void Strangers::dismiss(std::shared_ptr<Stranger> stranger) {
  stranger->dismissed = true;
  stranger->timer.cancel();
  stranger->handshake.reset();
  if (stranger->proven) stranger->proven->close();  // no answer: a scanner learns nothing
  waiting_.remove(stranger);
  make_room();
}

void Strangers::admit_from(Listener listener,
                           std::function<void(const boost::system::error_code&)> on_fault) {
  listener_ = std::move(listener);
  on_fault_ = std::move(on_fault);
  accept_next();
}

void Strangers::accept_next() {
  listener_.async_wait(Listener::wait_read, [this, alive = std::weak_ptr<char>(alive_)](
                                                const boost::system::error_code& error) {
    if (error == boost::asio::error::operation_aborted || alive.expired()) return;
    is_knocking_ = true;
    make_room();
  });
}

void Strangers::make_room() {
  if (!is_knocking_) return;
  if (waiting_.size() >= max_waiting_) {
    const auto first =
        std::min_element(waiting_.begin(), waiting_.end(), [](const auto& one, const auto& other) {
          return one->may_go_from() < other->may_go_from();
        });
    const auto wait = (*first)->may_go_from() - StrangerClock::now();
    if (wait > wait.zero()) return run_after(look_, wait, [this] { make_room(); });
    return dismiss(*first);  // which comes back here
  }
  look_.cancel();
  is_knocking_ = false;
  accept_one();
}

void Strangers::accept_one() {
  boost::system::error_code error;
  StreamSocket socket = listener_.accept(error);
  // Who went before it was accepted is no fault of ours; without a descriptor others have to go.
  const bool is_alone =
      error == boost::asio::error::would_block || error == boost::asio::error::connection_aborted;
  if (error && !is_alone) {
    if (!on_fault_) return run_after(look_, kAcceptPause, [this] { accept_next(); });
    boost::system::error_code ignored;
    listener_.close(ignored);
    return on_fault_(error);
  }
  if (!error && tune_connected(socket.native_handle()).empty()) admit(std::move(socket));
  accept_next();
}

}  // namespace troupe
