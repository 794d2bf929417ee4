#include "troupe/strategies/parameter_server/wire/server_steps.h"

#include <algorithm>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/control_messages.h"

namespace troupe {
namespace {

/// The next message of that worker may take its memory.
void reuse(ControlLines& lines, int rank, std::vector<std::byte> message) {
  if (const auto line = lines.at(rank)) line->reuse(std::move(message));
}

}  // namespace

BusyPulse::BusyPulse(std::chrono::milliseconds interval, std::function<void()> beat)
    : interval_(interval), beat_(std::move(beat)), thread_([this] { run(); }) {}

BusyPulse::~BusyPulse() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void BusyPulse::set(bool busy) {
  const std::lock_guard<std::mutex> lock(mutex_);
  busy_ = busy;
}

// It looks at the clock alone, so that the many short updates of a small model wake nobody. The
// lock is held during a beat: the owner waits for its end.
void BusyPulse::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_.wait_for(lock, interval_, [this] { return stop_; })) {
    if (busy_) beat_();
  }
}

ServerSteps::ServerSteps(const Cluster& cluster, const ServerOptions& pace,
                         const ServedModel& model, ParameterStore& store, ControlLines& lines,
                         std::chrono::milliseconds beat)
    : cluster_(cluster),
      pace_(pace),
      model_(model),
      store_(store),
      lines_(lines),
      clocks_(cluster.world_size()),
      rounds_(clocks_),
      keeper_(pace, cluster.server == 0 ? ServerRole::clock : ServerRole::follower, clocks_),
      changes_(model, cluster.server),
      versions_(cluster.members.size(), ChangeLog::kNothing),
      memories_(cluster.members.size()),
      pulse_(beat, [this] { lines_.beat_beside(); }) {}

bool ServerSteps::enter(int rank, std::uint64_t clock) {
  if (clocks_.live(rank) || clock > std::uint64_t{kMaxClock}) return false;
  if (cluster_.server == 0 && clocks_.clock(rank) != static_cast<std::int64_t>(clock)) return false;
  clocks_.enter(rank, static_cast<std::int64_t>(clock));
  return true;
}

void ServerSteps::lose(int rank) {
  keeper_.lose(rank);
  forget(rank);
}

void ServerSteps::leave(int rank) {
  keeper_.leave(rank);
  forget(rank);
}

void ServerSteps::forget(int rank) {
  version(rank) = ChangeLog::kNothing;
  rounds_.forget(rank);
}

bool ServerSteps::take(int rank, const FrameHeader& header, std::vector<std::byte> payload) {
  switch (header.type) {
    case FrameType::begin:
      return header.sequence <= std::uint64_t{kMaxClock} &&
             keeper_.ask(rank, static_cast<std::int64_t>(header.sequence));
    case FrameType::push:
      return on_push(rank, std::move(payload));
    case FrameType::end:
      return header.sequence <= std::uint64_t{kMaxClock} &&
             keeper_.end(rank, static_cast<std::int64_t>(header.sequence));
    default:
      return rank == 0 && take_chief_request(header, std::move(payload));
  }
}

bool ServerSteps::take_chief_request(const FrameHeader& header, std::vector<std::byte> payload) {
  const Span<const std::byte> body(payload);
  switch (header.type) {
    case FrameType::state:
      if (keeper_.launched() || pending_launch_) return false;
      initial_state_ = std::move(payload);
      return true;
    case FrameType::launch:
      return on_launch(body);
    case FrameType::hold:
      if (cluster_.server != 0 || !keeper_.launched()) return false;
      lines_.send(0, FrameType::held, to_json(keeper_.hold()));
      return true;
    case FrameType::collect:
      if (collecting_ || !keeper_.launched()) return false;
      collecting_ = target_clocks_from(body);
      return collecting_.has_value();
    case FrameType::release:
      keeper_.release();
      return cluster_.server == 0;
    case FrameType::finish: {
      const auto reason = finish_from(body);
      if (!reason || keeper_.finished()) return false;
      keeper_.finish(*reason);
      return true;
    }
    default:
      return false;
  }
}

bool ServerSteps::on_push(int rank, std::vector<std::byte> payload) {
  auto received = decode_push(std::move(payload), model_, cluster_.server);
  if (!received || !keeper_.launched() || rounds_.has(rank)) return false;
  if (!store_.accepts(received->push)) return false;
  if (received->place.clock != clocks_.clock(rank)) return false;
  if (!pace_.synchronous()) {
    if (pace_.correct_staleness) {
      received->push.missed = keeper_.missed(rank);
    }
    apply({&received->push}, 1.0);
    reuse(lines_, rank, std::move(received->message));
    return true;
  }
  rounds_.offer(rank, std::move(*received));
  return true;
}

bool ServerSteps::on_launch(Span<const std::byte> payload) {
  const auto launch = launch_from(payload);
  if (!launch || launch->last_step < launch->step) return false;
  if (keeper_.launched() || pending_launch_) return false;
  pulse_.during([&] { store_.load(Span<const std::byte>(initial_state_)); });
  initial_state_ = {};
  pending_launch_ = launch;
  return true;
}

void ServerSteps::launch_if_complete() {
  if (!pending_launch_ || !absent().empty()) return;
  keeper_.launch(*std::exchange(pending_launch_, std::nullopt));
  for (int rank = 0; rank < cluster_.world_size(); ++rank) {
    if (!clocks_.live(rank)) {
      log_warning("training begins without ", task(rank), ", which is lost.");
      keeper_.statistics().lost.push_back(text(task(rank), " at step ", keeper_.step()));
    }
    lines_.send(rank, FrameType::launched, keeper_.launched()->data,
                static_cast<std::uint64_t>(keeper_.step()));
  }
}

std::vector<int> ServerSteps::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; pending_launch_ && rank < cluster_.world_size(); ++rank) {
    if (!clocks_.live(rank) && !clocks_.is_given_up(rank)) ranks.push_back(rank);
  }
  return ranks;
}

// In an order in which one thing enables the next.
void ServerSteps::examine() {
  launch_if_complete();
  // After the end workers leave a round one by one: that is no conflict.
  if (keeper_.finished()) {
    for (auto& [rank, received] : rounds_.take_all())
      answer_push(rank, std::move(received.message), PushOutcome::ended);
  } else {
    fail_on_conflict();
  }
  if (lines_.failed()) return;
  for (auto update = rounds_.next(); !update.empty(); update = rounds_.next())
    apply_round(std::move(update));
  for (const auto& [rank, answer] : keeper_.answers()) {
    if (answer.ended.empty()) send_values(rank);
    lines_.send(rank, FrameType::begun, to_json(answer));
  }
  if (collecting_ && clocks_.reached(*collecting_)) send_state();
}

void ServerSteps::apply_round(RoundKeeper::Pushes update) {
  std::vector<const Push*> pushes;
  double weight = 0;
  PushOutcome outcome = PushOutcome::without_gradients;
  for (const auto& [rank, received] : update) {
    pushes.push_back(&received.push);
    weight += pushes.back()->weight;
    if (!pushes.back()->gradients.empty()) outcome = PushOutcome::applied;
  }
  // Every worker divided its loss by the examples of all. Without some of these the sum is short;
  // and of weights no worker knew the sum.
  const double divisor = pushes.front()->divisor;
  apply(pushes, weight == 0 || weight == divisor ? 1.0 : divisor / weight);
  if (update.begin()->second.place.sequence == 1) keeper_.statistics().count(0, 0);
  for (auto& [rank, received] : update) answer_push(rank, std::move(received.message), outcome);
}

void ServerSteps::apply(const std::vector<const Push*>& pushes, double scale) {
  pulse_.during([&] { store_.apply(pushes, scale); });
  changes_.begin_update();
  for (const Push* push : pushes) {
    for (const RowBlock& block : push->gradients) {
      if (block.all_rows) {
        changes_.touch_all(block.shard);
      } else {
        changes_.touch_rows(block.shard, block.rows);
      }
    }
  }
}

void ServerSteps::answer_push(int rank, std::vector<std::byte> message, PushOutcome outcome) {
  reuse(lines_, rank, std::move(message));
  send_values(rank);
  lines_.send(rank, FrameType::pushed, "", static_cast<std::uint64_t>(outcome));
}

void ServerSteps::fail_on_conflict() {
  const auto conflict = rounds_.conflict();
  if (!conflict) return;
  lines_.fail(
      {FailureKind::desync, conflict->other,
       text(task(conflict->rank), " ", conflict->does, ", but ", task(conflict->other), " ",
            conflict->other_does, "."),
       "let every worker call the same optimisers in the same order in each step.", kExitFailed},
      FrameType::abort);
}

void ServerSteps::send_values(int rank) {
  std::int64_t& known = version(rank);
  const auto line = lines_.at(rank);
  if (!line || known == changes_.version()) return;
  if (encoded_.from != known || encoded_.to != changes_.version()) {
    const auto changed = changes_.since(known);
    encoded_ = {known, changes_.version(), nullptr};
    if (!changed.empty()) {
      Memory& memory = memories_[static_cast<std::size_t>(rank)];
      if (!memory || memory.use_count() > 1) memory = std::make_shared<std::vector<std::byte>>();
      *memory =
          pulse_.during([&] { return encode_values(changed, model_, store_, std::move(*memory)); });
      encoded_.bytes = memory;
    }
  }
  known = changes_.version();
  if (!encoded_.bytes) return;
  line->send_bulk(lines_.header_of(FrameType::values), encoded_.bytes);
}

void ServerSteps::send_state() {
  collecting_.reset();
  send_values(0);
  keeper_.refresh(0);
  const auto state =
      std::make_shared<const std::vector<std::byte>>(pulse_.during([&] { return store_.save(); }));
  if (state->size() > bulk_limits(model_, cluster_.server).state) {
    throw ConfigError(text("the state of ", cluster_.task(), " takes ", state->size(),
                           " bytes, more than the protocol allows for its parameters."),
                      "use an optimiser with less state per parameter.");
  }
  if (const auto line = lines_.at(0)) line->send_bulk(lines_.header_of(FrameType::state), state);
  lines_.send(0, FrameType::collected, "", static_cast<std::uint64_t>(keeper_.step()));
}

std::string ServerSteps::waits_for(int rank) const {
  std::vector<int> ranks;
  if (!keeper_.launched()) {
    ranks = clocks_.live(rank) ? absent() : std::vector<int>{};
  } else if (rounds_.has(rank)) {
    ranks = rounds_.missing();
  } else {
    ranks = keeper_.waits_for(rank);
  }
  return cut_to_fit(join(ranks, ", ", [&](int other) {
    return task(other) + (keeper_.launched() ? text(" (at clock ", clocks_.clock(other), ")") : "");
  }));
}

}  // namespace troupe
