#include "troupe/strategies/parameter_server/wire/server_answers.h"

#include <utility>

namespace troupe {

using Lock = std::unique_lock<std::mutex>;

void ClientInbox::deliver(Arrival arrival) {
  {
    const Lock lock(mutex_);
    arrivals_.push_back(std::move(arrival));
  }
  changed_.notify_all();
}

bool ClientInbox::fail(const Failure& failure) {
  {
    const Lock lock(mutex_);
    if (failure_) return false;
    failure_ = failure;
  }
  changed_.notify_all();
  return true;
}

std::optional<Failure> ClientInbox::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

std::optional<Arrival> ClientInbox::next(const Deadline& deadline) {
  Lock lock(mutex_);
  changed_.wait_until(lock, deadline.when(), [&] { return failure_ || !arrivals_.empty(); });
  if (failure_ || arrivals_.empty()) return std::nullopt;
  Arrival arrival = std::move(arrivals_.front());
  arrivals_.pop_front();
  return arrival;
}

bool ClientInbox::wait_failed(const Deadline& deadline) {
  Lock lock(mutex_);
  return changed_.wait_until(lock, deadline.when(), [&] { return failure_.has_value(); });
}

void ClientInbox::push_posted(int server) {
  const Lock lock(mutex_);
  ++unwritten_[server];
}

void ClientInbox::push_written(int server) {
  {
    const Lock lock(mutex_);
    --unwritten_[server];
  }
  changed_.notify_all();
}

bool ClientInbox::wait_written(int server, const Deadline& deadline) {
  Lock lock(mutex_);
  changed_.wait_until(lock, deadline.when(), [&] { return failure_ || unwritten_[server] == 0; });
  return !failure_ && unwritten_[server] == 0;
}

void ClientInbox::note(int server, const std::string& text) {
  const Lock lock(mutex_);
  notes_[server] = text;
}

std::string ClientInbox::note_of(int server) const {
  const Lock lock(mutex_);
  const auto found = notes_.find(server);
  return found == notes_.end() ? "" : found->second;
}

bool take_down(Heard& from, Arrival& arrival) {
  const Span<const std::byte> body(arrival.payload);
  const auto sequence = static_cast<std::int64_t>(arrival.header.sequence);
  if (sequence < 0 || sequence > kMaxClock) return false;
  switch (arrival.header.type) {
    case FrameType::entry:
      from.entry = sequence;
      return true;
    case FrameType::entered:
      from.entered = true;
      return true;
    case FrameType::launched:
      from.launched =
          Launch{sequence, 0, std::string(reinterpret_cast<const char*>(body.data()), body.size())};
      return true;
    case FrameType::begun:
      from.step = step_answer_from(body);
      return from.step.has_value();
    case FrameType::pushed:
      from.push = static_cast<PushOutcome>(sequence);
      return sequence >= 1 && sequence <= 3;
    case FrameType::held:
      from.held = target_clocks_from(body);
      return from.held.has_value();
    case FrameType::state:
      from.state = std::move(arrival.payload);
      return true;
    case FrameType::collected:
      from.collected = sequence;
      return true;
    case FrameType::statistics:
      from.statistics = statistics_from(body);
      return from.statistics.has_value();
    case FrameType::goodbye:
      from.goodbye = true;
      return true;
    default:
      return false;
  }
}

}  // namespace troupe
