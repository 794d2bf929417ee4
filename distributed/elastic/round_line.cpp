#include "troupe/distributed/elastic/round_line.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"

namespace troupe {
namespace {

void check_kind(int fd) {
  int kind = 0;
  socklen_t length = sizeof kind;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == SOCK_SEQPACKET) return;
  throw EnvironmentError(text("descriptor ", fd,
                              " is no line to troupe run, as TROUPE_ROUNDS_FD says: a program in "
                              "between closed it."),
                         "let that program pass descriptors on (Python: close_fds=False).");
}

/// What next() does about the end. Returns where training is over.
void conclude(const EndOfRounds& end) {
  if (end.exit_code == 0) return;
  for (const int number : kStopSignals)
    if (end.exit_code == kExitSignal + number) throw Stopped(end.cause, end.fix, number);
  if (end.exit_code == kExitPeerLost) throw PeerLost(end.cause, end.fix);
  throw PeerFailed(end.cause, end.fix, end.exit_code);
}

}  // namespace

RoundLine::RoundLine(UniqueFd line) : line_(std::move(line)) {
  check_kind(line_.get());
  const NoSignals in_thread;
  reader_ = std::thread([this] { read(); });
}

RoundLine::~RoundLine() {
  shutdown(line_.get(), SHUT_RDWR);  // wakes the reader, whatever it waits for
  reader_.join();
}

void RoundLine::watch(std::function<void(const RoundLoss&)> on_lost) {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_lost_ = std::move(on_lost);
}

std::optional<Round> RoundLine::next(const Readiness& mine) {
  send(mine);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return round_ || end_; });
  if (!round_) conclude(*end_);
  return std::exchange(round_, std::nullopt);
}

void RoundLine::ask_to_leave() {
  if (!std::exchange(has_asked_, true)) send(LeaveRequest{});
}

std::optional<Departure> RoundLine::departure() const {
  if (!departs_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  return departure_;
}

void RoundLine::read() {
  name_this_thread("rounds");
  std::vector<std::byte> buffer(kMaxRoundMessageBytes + 1);  // one that is too long shows
  for (;;) {
    const ssize_t count = recv(line_.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return end(
          {kExitPeerLost, "the launcher is gone: its line to this worker closed.", kRunAgain});
    auto message = rendezvous_message_from({buffer.data(), static_cast<std::size_t>(count)});
    if (!message)
      return end({kExitPeerLost, "the launcher sent this worker what is no message.",
                  "run the same build of Troupe as tool and as program."});
    take(std::move(*message));
  }
}

void RoundLine::take(RendezvousMessage message) {
  if (std::holds_alternative<Ping>(message)) return send(Pong{});
  if (const auto* waiting = std::get_if<Waiting>(&message)) return waiting_.store(waiting->count);
  if (auto* why = std::get_if<EndOfRounds>(&message)) return end(std::move(*why));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto* loss = std::get_if<RoundLoss>(&message)) {
    if (on_lost_) on_lost_(*loss);
    return;
  }
  if (auto* departure = std::get_if<Departure>(&message)) {
    departure_ = std::move(*departure);
    return departs_.store(true, std::memory_order_release);
  }
  round_ = std::get<Round>(std::move(message));
  changed_.notify_all();
}

/// The first reason stays: after it the line closes.
void RoundLine::end(EndOfRounds why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!end_) end_ = std::move(why);
  changed_.notify_all();
}

/// A line that is closed is the reader's to notice.
void RoundLine::send(const WorkerMessage& message) const {
  const std::string bytes = to_json(message);
  while (::send(line_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

}  // namespace troupe
