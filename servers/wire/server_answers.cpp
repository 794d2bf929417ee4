#include "servers/wire/server_answers.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "distributed/membership/failure.h"
#include "servers/wire/row_messages.h"

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

namespace {

// False: the frame is not what a server sends.
bool record(Heard& from, Arrival& arrival) {
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
      from.launched = sequence;
      return true;
    case FrameType::begun:
      from.step = step_answer_from(body);
      return from.step.has_value();
    case FrameType::pushed:
      from.push = sequence == 1 ? PushOutcome::applied : PushOutcome::ended;
      return sequence == 1 || sequence == 2;
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

}  // namespace

void ServerAnswers::await(const std::string& what, const Deadline& deadline, const Install& install,
                          const Answered& answered) {
  const auto all = [&] {
    for (int server = 0; server < servers(); ++server) {
      if (!answered(server)) return false;
    }
    return true;
  };
  while (!all()) {
    auto arrival = inbox_.next(deadline);
    if (arrival) {
      take(std::move(*arrival), install);
      continue;
    }
    if (const auto failure = inbox_.failure()) raise(*failure, cluster_, "");
    throw TimeoutError(text(cluster_.task(), " waited ", deadline.limit_seconds(), " s for ",
                            unanswered(answered), " to ", what, "."),
                       "look at the logs of those that it names.");
  }
}

std::string ServerAnswers::unanswered(const Answered& answered) const {
  std::string names;
  for (int server = 0; server < servers(); ++server) {
    if (answered(server)) continue;
    const std::string note = inbox_.note_of(server);
    names += text(names.empty() ? "" : ", ",
                  describe_member(cluster_.servers[static_cast<std::size_t>(server)]),
                  note.empty() ? "" : " (" + note + ")");
  }
  return names;
}

void ServerAnswers::take(Arrival arrival, const Install& install) {
  const bool well_formed = arrival.header.type == FrameType::values
                               ? install_values(arrival, install)
                               : record(of(arrival.server), arrival);
  if (!well_formed) malformed_(arrival.server);
}

bool ServerAnswers::install_values(const Arrival& arrival, const Install& install) {
  const auto blocks = decode_values(Span<const std::byte>(arrival.payload), model_, arrival.server);
  if (!blocks) return false;
  pulled_ += static_cast<std::int64_t>(arrival.payload.size());
  if (!install) return true;
  for (const RowBlock& block : *blocks) install(block);
  return true;
}

}  // namespace troupe
