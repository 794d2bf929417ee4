#include "launcher/launch_rendezvous.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "launcher/launch_report.h"
#include "net/timer.h"

namespace troupe {
namespace {

constexpr int kMostInTurn = 64;  // messages of one worker, before others are read

std::optional<int> code_of(const ChildEnd& end) {
  if (is_loss(end)) return std::nullopt;
  return end.code;
}

}  // namespace

bool is_loss(const ChildEnd& end) { return end.signal != 0 || end.code == kExitPeerLost; }

LaunchRendezvous::LaunchRendezvous(boost::asio::io_context& io, LaunchConsole& console,
                                   std::unique_ptr<Rendezvous> rendezvous, int workers,
                                   Events events)
    : io_(io),
      console_(console),
      rendezvous_(std::move(rendezvous)),
      events_(std::move(events)),
      lines_(static_cast<std::size_t>(workers)),
      timer_(io) {}

UniqueFd LaunchRendezvous::open_line(int index) { return connect({index, 0}); }

UniqueFd LaunchRendezvous::open_line_to_join(int index, const Endpoint& listens) {
  return connect(rendezvous_->joins(index, listens));
}

UniqueFd LaunchRendezvous::connect(RoundWorker worker) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw EnvironmentError(text("cannot make a socket: ", std::strerror(errno), "."),
                           "raise the limit of open files (ulimit -n) or start fewer workers.");
  UniqueFd of_worker(ends[1]);
  auto line = std::make_unique<Line>(io_);
  line->descriptor.assign(ends[0]);
  line->worker = worker;
  read(*line);
  lines_[static_cast<std::size_t>(worker.index)] = std::move(line);
  return of_worker;
}

void LaunchRendezvous::read(Line& line) {
  line.descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                             [this, &line](const boost::system::error_code& error) {
                               if (error) return;
                               drain(line);
                               carry_out();
                               if (line.descriptor.is_open()) read(line);
                             });
}

void LaunchRendezvous::drain(Line& line) {
  std::vector<std::byte> buffer(kMaxRoundMessageBytes + 1);  // one that is too long shows
  for (int i = 0; i < kMostInTurn; ++i) {
    const ssize_t count =
        recv(line.descriptor.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return line.descriptor.close();  // its process ends, or can do without
    const auto now = std::chrono::steady_clock::now();
    const auto message = worker_message_from({buffer.data(), static_cast<std::size_t>(count)});
    const auto* const ready = message ? std::get_if<Readiness>(&*message) : nullptr;
    if (ready != nullptr && ready->leaves) line.has_left = true;
    if (message)
      rendezvous_->take(line.worker, *message, now);
    else
      rendezvous_->refuse(line.worker, "sent what is no message of rounds", now);
  }
}

bool LaunchRendezvous::ended(int index, const ChildEnd& end) {
  Line& ended = line(index);
  if (ended.descriptor.is_open()) drain(ended);  // its last words
  ended.descriptor.close();
  tell_start();  // before anybody judges its end
  last_ended_ = index;
  rendezvous_->ended(ended.worker, code_of(end), std::chrono::steady_clock::now());
  const auto orders = rendezvous_->take_orders();
  const bool ends_group = std::any_of(orders.begin(), orders.end(), [](const auto& order) {
    return std::holds_alternative<RoundVerdict>(order);
  });
  std::move(orders.begin(), orders.end(), std::back_inserter(orders_));
  return !ends_group && !ended.is_dismissed;
}

void LaunchRendezvous::stop() {
  rendezvous_->stop(std::chrono::steady_clock::now());
  carry_out();
}

void LaunchRendezvous::tell_start() {
  if (rendezvous_->has_started() && !std::exchange(has_started_, true)) events_.on_started();
}

void LaunchRendezvous::carry_out() {
  tell_start();
  for (;;) {
    for (RendezvousOrder& order : rendezvous_->take_orders()) orders_.push_back(std::move(order));
    if (orders_.empty()) break;
    for (const RendezvousOrder& order : std::exchange(orders_, {}))
      std::visit([this](const auto& each) { carry_out(each); }, order);
  }
  wake_in_time();
}

void LaunchRendezvous::carry_out(const Expulsion& order) {
  if (order.why.empty())
    line(order.who.index).is_dismissed = true;
  else
    console_.say(text(order.why, "; it is killed."));
  events_.on_expelled(order.who.index);
}

void LaunchRendezvous::carry_out(const RoundLetter& order) {
  Line& to = line(order.to.index);
  if (!to.descriptor.is_open()) return;
  const std::string bytes = to_json(order.message);
  if (send(to.descriptor.native_handle(), bytes.data(), bytes.size(),
           MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
    return;
  if (errno == EAGAIN || errno == ENOBUFS)
    rendezvous_->refuse(order.to, "does not read what it is told",
                        std::chrono::steady_clock::now());
}

void LaunchRendezvous::carry_out(const RoundBegin& order) {
  const std::string joined = order.joined == 0 ? "" : text(", ", order.joined, " of them new,");
  console_.say(text("round ", order.number, ": ", group_text(order.workers, 0, 0), joined,
                    order.workers == 1 ? " continues" : " continue", " after step ", order.step,
                    "; training stood still for ", order.stood_still.count(), " ms."));
}

void LaunchRendezvous::carry_out(const RoundVerdict& order) {
  events_.on_verdict(order, last_ended_);
}

void LaunchRendezvous::wake_in_time() {
  timer_.cancel();
  const auto when = rendezvous_->wakes_at();
  if (!when) return;
  run_after(timer_, *when - std::chrono::steady_clock::now(), [this] {
    rendezvous_->tick(std::chrono::steady_clock::now());
    carry_out();
  });
}

}  // namespace troupe
