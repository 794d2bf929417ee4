#include "troupe/strategies/parameter_server/wire/pace_keeper.h"

#include <tuple>

#include "troupe/core/text.h"

namespace troupe {
namespace {

auto order_of(const ReceivedPush& push) { return std::tie(push.place.clock, push.place.sequence); }

std::string describe(const ReceivedPush& push) {
  return text("updates optimizer ", push.push.optimizer, " in push ", push.place.sequence,
              " of step ", push.place.clock + 1);
}

}  // namespace

// The push that the next update is built around, because its place comes first.
const ReceivedPush* RoundKeeper::at_hand() const {
  const auto first = std::min_element(
      pushes_.begin(), pushes_.end(),
      [](const auto& a, const auto& b) { return order_of(a.second) < order_of(b.second); });
  return first == pushes_.end() ? nullptr : &first->second;
}

std::vector<int> RoundKeeper::expected(const ReceivedPush& push) const {
  std::vector<int> ranks;
  for (const int rank : clocks_.live_ranks()) {
    if (clocks_.takes_part(rank, push.place.clock)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> RoundKeeper::missing() const {
  std::vector<int> ranks;
  const ReceivedPush* const push = at_hand();
  if (push == nullptr) return ranks;
  for (const int rank : expected(*push)) {
    if (!has(rank)) ranks.push_back(rank);
  }
  return ranks;
}

RoundKeeper::Pushes RoundKeeper::next() {
  Pushes update;
  const ReceivedPush* const push = at_hand();
  if (push == nullptr) return update;
  const std::vector<int> ranks = expected(*push);
  const bool complete = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return has(rank) && order_of(pushes_.at(rank)) == order_of(*push);
  });
  if (!complete) return update;
  for (const int rank : ranks) update.insert(pushes_.extract(rank));
  return update;
}

std::optional<RoundKeeper::Conflict> RoundKeeper::conflict() const {
  for (const auto& [rank, push] : pushes_) {
    for (const auto& [other, theirs] : pushes_) {
      const bool same_place = order_of(theirs) == order_of(push);
      if (same_place && theirs.push.optimizer == push.push.optimizer) continue;
      return Conflict{rank, describe(push), other, describe(theirs)};
    }
    for (const int other : expected(push)) {
      if (clocks_.clock(other) <= push.place.clock || has(other)) continue;
      return Conflict{rank, describe(push), other, "has ended that step without it"};
    }
  }
  return std::nullopt;
}

// In a synchronous job that is a round which nobody has been granted, so no server can have ended
// it; server 0 grants it only when the newcomer is known everywhere.
std::optional<std::int64_t> PaceKeeper::assign(int rank) {
  if (held_) return std::nullopt;
  std::int64_t clock = 0;
  if (pace_.synchronous()) {
    clock = furthest_;
  } else if (const auto slowest = clocks_.slowest(); launched() && slowest) {
    clock = std::max<std::int64_t>(*slowest, 0);  // another newcomer counts as one behind
  }
  clocks_.assign(rank, clock);
  return clock;
}

void PaceKeeper::lose(int rank) {
  clocks_.lose(rank);
  requests_.erase(rank);
  const auto tickets = tickets_.find(rank);
  if (tickets == tickets_.end()) return;
  returned_.insert(tickets->second.number);
  tickets_.erase(tickets);
}

void PaceKeeper::leave(int rank) {
  lose(rank);
  clocks_.leave(rank);
}

void PaceKeeper::finish(const std::string& reason) {
  if (!finished()) finished_ = reason.empty() ? "training is over" : reason;
}

bool PaceKeeper::ask(int rank, std::int64_t clock) {
  const bool is_next = clock == clocks_.clock(rank) && tickets_.count(rank) == 0;
  return is_next && requests_.emplace(rank, clock).second;
}

std::map<int, StepAnswer> PaceKeeper::answers() {
  std::map<int, StepAnswer> granted;
  for (auto request = requests_.begin(); request != requests_.end();) {
    if (auto found = answer(request->first, request->second)) {
      granted.emplace(request->first, std::move(*found));
      request = requests_.erase(request);
    } else {
      ++request;
    }
  }
  return granted;
}

std::optional<StepAnswer> PaceKeeper::answer(int rank, std::int64_t clock) {
  if (!launched()) return std::nullopt;
  const bool numbers_steps = role_ == ServerRole::clock;
  if (finished()) {
    // Server 0 may have granted this step before it heard of the end: then the worker takes it.
    if (!numbers_steps) note_read(rank);
    return over(finished_);
  }
  if (numbers_steps && !pace_.synchronous() && ended_ >= steps()) {
    return over(text("step ", launch_->last_step, ", the last one, has ended"));
  }
  if (!in_pace(clock)) return std::nullopt;
  if (numbers_steps) return grant(rank, clock);
  note_read(rank);
  return StepAnswer();
}

void PaceKeeper::note_read(int rank) {
  if (!pace_.synchronous()) tickets_[rank].read = read_now();
}

bool PaceKeeper::in_pace(std::int64_t clock) const {
  return !pace_.staleness_bound ||
         clocks_.slowest().value_or(clock) >= clock - *pace_.staleness_bound;
}

std::optional<StepAnswer> PaceKeeper::grant(int rank, std::int64_t clock) {
  StepAnswer answer;
  answer.last_step = launch_->last_step;
  if (pace_.synchronous()) {
    if (clock >= steps()) {
      return over(text("step ", launch_->last_step, ", the last one, has ended"));
    }
    furthest_ = std::max(furthest_, clock + 1);
    answer.step = launch_->step + clock + 1;
    return answer;
  }
  if (held_ || (returned_.empty() && granted_ >= steps())) return std::nullopt;
  Ticket ticket;
  if (!returned_.empty()) {
    ticket.number = *returned_.begin();
    returned_.erase(returned_.begin());
  } else {
    ticket.number = ++granted_;
  }
  ticket.read = read_now();
  tickets_[rank] = ticket;
  answer.step = launch_->step + ticket.number;
  return answer;
}

StepAnswer PaceKeeper::over(const std::string& why) const {
  StepAnswer answer;
  answer.last_step = step();
  answer.ended = why;
  return answer;
}

bool PaceKeeper::end(int rank, std::int64_t clock) {
  const std::int64_t former = clocks_.clock(rank);
  if (clock != former + 1) return false;
  if (!pace_.synchronous()) {
    const auto ticket = tickets_.find(rank);
    if (ticket == tickets_.end()) return false;
    const Read& read = ticket->second.read;
    statistics_.count(former - read.slowest, ended_ - read.ended);
    tickets_.erase(ticket);
  }
  ++ended_;
  clocks_.advance(rank, clock);
  return true;
}

PaceKeeper::Read PaceKeeper::read_now() const { return {clocks_.slowest().value_or(0), ended_}; }

void PaceKeeper::refresh(int rank) {
  const auto ticket = tickets_.find(rank);
  if (ticket != tickets_.end()) ticket->second.read = read_now();
}

std::int64_t PaceKeeper::missed(int rank) const {
  const auto ticket = tickets_.find(rank);
  return ticket == tickets_.end() ? 0 : ended_ - ticket->second.read.ended;
}

TargetClocks PaceKeeper::hold() {
  held_ = true;
  TargetClocks targets;
  for (int rank = 0; rank < clocks_.world_size(); ++rank) {
    if (!clocks_.counts(rank)) continue;
    if (pace_.synchronous()) {
      targets[rank] = clocks_.clock(0);  // the round after it cannot end without the chief
      continue;
    }
    targets[rank] = clocks_.clock(rank) + static_cast<std::int64_t>(tickets_.count(rank));
  }
  return targets;
}

std::int64_t PaceKeeper::step() const {
  if (!launched()) return 0;
  if (!pace_.synchronous()) return launch_->step + ended_;
  // Not clocks_.slowest(): who enters counts as one behind there, and takes no round back.
  std::optional<std::int64_t> rounds;
  for (const int rank : clocks_.live_ranks())
    rounds = std::min(rounds.value_or(clocks_.clock(rank)), clocks_.clock(rank));
  return launch_->step + rounds.value_or(0);
}

std::vector<int> PaceKeeper::waits_for(int rank) const {
  std::vector<int> ranks;
  const auto request = requests_.find(rank);
  if (request == requests_.end()) return ranks;
  const std::int64_t bound = pace_.staleness_bound.value_or(0);
  for (const int other : clocks_.live_ranks()) {
    const bool has_ticket = tickets_.count(other) != 0;
    const bool behind = pace_.staleness_bound && clocks_.clock(other) < request->second - bound;
    if (other != rank && (behind || (in_pace(request->second) && has_ticket))) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

}  // namespace troupe
