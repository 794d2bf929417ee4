// What a server does with the frames of those who take part: steps, updates, values, collections.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/text.h"
#include "servers/wire/server_process.h"

namespace troupe {

void ServerProcess::on_frame(int rank, const FrameHeader& header, std::vector<std::byte> payload) {
  if (failing()) return;
  liveness_.heard(rank, std::chrono::steady_clock::now());
  bool well_formed = false;
  switch (header.type) {
    case FrameType::heartbeat:
      return;
    case FrameType::report:
      well_formed = on_report(rank, Span<const std::byte>(payload));
      break;
    case FrameType::enter:
      well_formed = !clocks_.live(rank) && header.sequence <= std::uint64_t{kMaxClock} &&
                    (!is_clock() || clocks_.clock(rank) == std::int64_t(header.sequence));
      if (well_formed) return on_enter(rank, header);
      break;
    case FrameType::goodbye:
      return on_goodbye(rank);
    default:
      well_formed =
          clocks_.live(rank) && !seat(rank).left && take_request(rank, header, std::move(payload));
      break;
  }
  if (!well_formed) return lose(rank, "it sent a frame that the protocol does not have");
  examine();
}

bool ServerProcess::take_request(int rank, const FrameHeader& header,
                                 std::vector<std::byte> payload) {
  switch (header.type) {
    case FrameType::begin:
      return header.sequence <= std::uint64_t{kMaxClock} &&
             on_begin(rank, static_cast<std::int64_t>(header.sequence));
    case FrameType::push:
      return on_push(rank, std::move(payload));
    case FrameType::end:
      return header.sequence <= std::uint64_t{kMaxClock} &&
             keeper_.end(rank, static_cast<std::int64_t>(header.sequence));
    default:
      return rank == 0 && take_chief_request(header, std::move(payload));
  }
}

bool ServerProcess::take_chief_request(const FrameHeader& header, std::vector<std::byte> payload) {
  const Span<const std::byte> body(payload);
  switch (header.type) {
    case FrameType::state:
      if (keeper_.launched() || pending_launch_) return false;
      initial_state_ = std::move(payload);
      return true;
    case FrameType::launch:
      return on_launch(body);
    case FrameType::hold:
      if (!is_clock() || !keeper_.launched()) return false;
      send(0, FrameType::held, 0, to_json(keeper_.hold()));
      return true;
    case FrameType::collect:
      if (collecting_ || !keeper_.launched()) return false;
      collecting_ = target_clocks_from(body);
      return collecting_.has_value();
    case FrameType::release:
      keeper_.release();
      return is_clock();
    case FrameType::finish:
      return on_finish(body);
    default:
      return false;
  }
}

bool ServerProcess::on_report(int rank, Span<const std::byte> payload) {
  const auto failure = failure_from(payload);
  const auto processes = cluster_.members.size() + cluster_.servers.size();
  if (!failure || static_cast<std::size_t>(failure->culprit) >= processes) return false;
  const bool found_difference = failure->kind == FailureKind::config && !clocks_.live(rank);
  found_difference ? note_difference(rank, *failure) : fail(*failure);
  return true;
}

bool ServerProcess::on_begin(int rank, std::int64_t clock) {
  if (!keeper_.fits(rank, clock)) return false;
  keeper_.ask(rank, clock);
  return true;
}

bool ServerProcess::on_push(int rank, std::vector<std::byte> payload) {
  auto received = decode_push(std::move(payload), model_, cluster_.server);
  if (!received || !keeper_.launched() || seat(rank).push) return false;
  if (received->place.clock != clocks_.clock(rank)) return false;
  if (!pace_.synchronous()) {
    apply({&received->push}, 1.0);
    return true;
  }
  rounds_.offer({rank, received->place.clock, received->place.sequence, received->push.optimizer});
  seat(rank).push = std::move(*received);
  return true;
}

bool ServerProcess::on_launch(Span<const std::byte> payload) {
  const auto launch = launch_from(payload);
  if (!launch || launch->last_step < launch->step) return false;
  if (keeper_.launched() || pending_launch_) return false;
  pulse_.during([&] { store_.load(Span<const std::byte>(initial_state_)); });
  initial_state_ = {};
  pending_launch_ = launch;
  limit_start();
  return true;
}

bool ServerProcess::on_finish(Span<const std::byte> payload) {
  const auto reason = finish_from(payload);
  if (!reason || keeper_.finished()) return false;
  keeper_.finish(*reason);
  stop_at(options_.close_timeout);
  return true;
}

// Everything that has become possible, in an order in which one thing enables the next.
void ServerProcess::examine() {
  if (failing()) return;
  for (int rank = 0; rank < cluster_.world_size(); ++rank) {
    if (!seat(rank).awaits_clock) continue;
    if (const auto clock = keeper_.assign(rank)) tell_clock(rank, *clock);
  }
  launch_if_complete();
  // After the end workers leave a round one by one: that is no conflict.
  if (keeper_.finished()) {
    for (const int rank : rounds_.take_all()) answer_push(rank, PushOutcome::ended);
  } else {
    fail_on_conflict();
  }
  while (const auto update = failing() ? std::nullopt : rounds_.next()) apply_round(*update);
  if (failing()) return;
  for (const auto& [rank, answer] : keeper_.answers()) {
    if (answer.ended.empty()) send_values(rank);
    send(rank, FrameType::begun, 0, to_json(answer));
  }
  if (collecting_ && clocks_.reached(*collecting_)) send_state();
  end_if_left();
}

void ServerProcess::apply_round(const RoundKeeper::Update& update) {
  std::vector<const Push*> pushes;
  std::int64_t examples = 0;
  for (const int rank : update.ranks) {
    pushes.push_back(&seat(rank).push->push);
    examples += pushes.back()->examples;
  }
  // Every worker divided its loss by the examples of all; without some of these the sum is short.
  const auto all = static_cast<int>(update.ranks.size()) == cluster_.world_size();
  const auto global = static_cast<double>(pushes.front()->global_examples);
  const double scale = all || examples == 0 ? 1.0 : global / static_cast<double>(examples);
  apply(pushes, scale);
  if (update.sequence == 1) keeper_.statistics().count(0, 0);
  for (const int rank : update.ranks) answer_push(rank, PushOutcome::applied);
}

void ServerProcess::apply(const std::vector<const Push*>& pushes, double scale) {
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

void ServerProcess::answer_push(int rank, PushOutcome outcome) {
  seat(rank).push.reset();
  send_values(rank);
  send(rank, FrameType::pushed, static_cast<std::uint64_t>(outcome), "");
}

void ServerProcess::fail_on_conflict() {
  const auto conflict = rounds_.conflict();
  if (!conflict) return;
  fail({FailureKind::desync, conflict->other,
        text(task(conflict->rank), " ", conflict->does, ", but ", task(conflict->other), " ",
             conflict->other_does, "."),
        "let every worker call the same optimisers in the same order in each step.", kExitFailed});
}

void ServerProcess::send_values(int rank) {
  Seat& to = seat(rank);
  if (!to.connection || to.version == changes_.version()) return;
  if (encoded_.from != to.version || encoded_.to != changes_.version()) {
    const auto changed = changes_.since(to.version);
    encoded_ = {to.version, changes_.version(), nullptr};
    if (!changed.empty()) {
      encoded_.bytes = std::make_shared<const std::vector<std::byte>>(
          pulse_.during([&] { return encode_values(changed, model_, store_); }));
    }
  }
  to.version = changes_.version();
  if (!encoded_.bytes) return;
  FrameHeader header;
  header.type = FrameType::values;
  header.generation = cluster_.generation;
  to.connection->send_bulk(header, encoded_.bytes);
}

void ServerProcess::send_state() {
  collecting_.reset();
  send_values(0);
  keeper_.refresh(0);
  FrameHeader header;
  header.type = FrameType::state;
  header.generation = cluster_.generation;
  const auto state =
      std::make_shared<const std::vector<std::byte>>(pulse_.during([&] { return store_.save(); }));
  if (state->size() > bulk_limits(model_, cluster_.server).state) {
    throw ConfigError(text("the state of ", cluster_.task(), " takes ", state->size(),
                           " bytes, more than the protocol allows for its parameters."),
                      "use an optimiser with less state per parameter.");
  }
  if (seat(0).connection) seat(0).connection->send_bulk(header, state);
  send(0, FrameType::collected, static_cast<std::uint64_t>(keeper_.step()), "");
}

// What a worker reads when its deadline comes first.
std::string ServerProcess::waits_for(int rank) const {
  std::vector<int> ranks;
  if (!keeper_.launched()) {
    ranks = clocks_.live(rank) && pending_launch_ ? absent() : std::vector<int>{};
  } else if (seat(rank).push) {
    ranks = rounds_.missing();
  } else {
    ranks = keeper_.waits_for(rank);
  }
  std::string names;
  for (const int other : ranks) {
    names += (names.empty() ? "" : ", ") + task(other);
    if (keeper_.launched()) names += text(" (at clock ", clocks_.clock(other), ")");
  }
  return cut_to_fit(names);
}

}  // namespace troupe
