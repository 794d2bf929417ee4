#include "troupe/launcher/nodes/launch_rendezvous.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {

LaunchRendezvous::LaunchRendezvous(boost::asio::io_context& io, LaunchConsole& console,
                                   std::unique_ptr<Rendezvous> rendezvous, int workers,
                                   Events events, RemoteWorkers* remote)
    : console_(console),
      rendezvous_(std::move(rendezvous)),
      events_(std::move(events)),
      remote_(remote),
      lines_(
          io, [this](int index, Span<const std::byte> bytes) { take(index, bytes); },
          [this] { carry_out(); }),
      workers_(static_cast<std::size_t>(workers)),
      timer_(io) {
  for (int index = 0; index < workers; ++index) worker(index).who.index = index;
  if (remote_ != nullptr) listen_to_remote();
}

void LaunchRendezvous::listen_to_remote() {
  remote_->listen({[this](int index, Span<const std::byte> bytes) {
                     take(index, bytes);
                     carry_out();
                   },
                   [this](int index, const Endpoint& listens) {
                     worker(index) = {rendezvous_->starts(index, listens)};
                     carry_out();
                   },
                   [this](int index, const EndedProcess& process) {
                     events_.on_remote_end(index, process);
                     events_.on_remote_change();
                   },
                   [this](int index, std::chrono::steady_clock::time_point heard) {
                     last_ended_ = index;
                     rendezvous_->ended(worker(index).who, std::nullopt,
                                        std::chrono::steady_clock::now(), heard);
                     events_.on_remote_change();
                   },
                   [this](int index) { events_.on_remote_back(index); }});
}

UniqueFd LaunchRendezvous::open_line(int index, const Endpoint& listens, bool) {
  UniqueFd line = lines_.open(index);
  worker(index) = {rendezvous_->starts(index, listens)};
  return line;
}

void LaunchRendezvous::take(int index, Span<const std::byte> bytes) {
  const auto now = std::chrono::steady_clock::now();
  const auto message = worker_message_from(bytes);
  const auto* const ready = message ? std::get_if<Readiness>(&*message) : nullptr;
  if (ready != nullptr && ready->leaves) worker(index).has_left = true;
  if (message)
    rendezvous_->take(worker(index).who, *message, now);
  else
    rendezvous_->refuse(worker(index).who, "sent what is no message of rounds", now);
}

bool LaunchRendezvous::ended(int index, const EndedProcess& process) {
  lines_.close(index);  // its last words
  tell_start();         // before anybody judges its end
  last_ended_ = index;
  if (remote_ != nullptr && !process.end.failed()) remote_->set_over();
  const bool is_lost = is_loss(process.end);
  const bool has_led = rendezvous_->ended(worker(index).who,
                                          is_lost ? std::nullopt : std::optional(process.end.code),
                                          std::chrono::steady_clock::now());
  if (is_lost && has_led) lost_chief_ = process;
  const auto orders = rendezvous_->take_orders();
  const bool ends_group = std::any_of(orders.begin(), orders.end(), [](const auto& order) {
    return std::holds_alternative<RoundVerdict>(order);
  });
  std::move(orders.begin(), orders.end(), std::back_inserter(orders_));
  return !ends_group && !worker(index).is_dismissed;
}

void LaunchRendezvous::stop() {
  rendezvous_->stop(std::chrono::steady_clock::now());
  carry_out();
}

bool LaunchRendezvous::start_elsewhere(int index) {
  if (!is_remote(index)) return false;
  remote_->order(index, /*starts=*/true);
  return true;
}

bool LaunchRendezvous::goes_on(bool) const { return remote_ != nullptr && remote_->any_lives(); }

void LaunchRendezvous::tell_start() {
  if (!rendezvous_->has_started() || std::exchange(has_started_, true)) return;
  if (remote_ != nullptr) remote_->set_heals();
  events_.on_started();
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
  const int index = order.who.index;
  if (order.why.empty())
    worker(index).is_dismissed = true;
  else
    console_.say(text(order.why, "; it is killed."));
  if (is_remote(index)) return remote_->order(index, /*starts=*/false);
  events_.on_expelled(index);
}

bool LaunchRendezvous::send(int index, const std::string& message) {
  if (!is_remote(index)) return lines_.send(index, message);
  remote_->say(index, message);
  return true;
}

void LaunchRendezvous::carry_out(const RoundLetter& order) {
  if (!send(order.to.index, to_json(order.message)))
    rendezvous_->refuse(order.to, "does not read what it is told",
                        std::chrono::steady_clock::now());
}

void LaunchRendezvous::carry_out(const RoundBegin& order) {
  lost_chief_.reset();
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
