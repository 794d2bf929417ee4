#include "servers/wire/pace_keeper.h"

#include <algorithm>

#include "core/text.h"

namespace troupe {

PaceKeeper::PaceKeeper(const Staleness& pace, ServerRole role, WorkerClocks& clocks,
                       RoundKeeper& rounds)
    : pace_(pace), role_(role), clocks_(clocks), rounds_(rounds) {}

// In a synchronous job without backup workers that is a round which nobody has been granted, so no
// server can have ended it; server 0 grants it only when the newcomer is known everywhere.
std::optional<std::int64_t> PaceKeeper::assign(int rank) {
  if (held_) return std::nullopt;
  std::int64_t clock = 0;
  if (rounds_.has_backups()) {
    clock = rounds_.decided();
  } else if (pace_.synchronous()) {
    clock = furthest_;
  } else if (const auto slowest = clocks_.slowest(); launched() && slowest.rank >= 0) {
    clock = std::max<std::int64_t>(slowest.clock, 0);  // another newcomer counts as one behind
  }
  clocks_.assign(rank, clock);
  return clock;
}

void PaceKeeper::enter(int rank, std::int64_t clock) { clocks_.enter(rank, clock); }

void PaceKeeper::leave(int rank) {
  clocks_.leave(rank);
  rounds_.forget(rank);
  requests_.erase(rank);
  const auto tickets = tickets_.find(rank);
  if (tickets == tickets_.end()) return;
  for (const auto& [clock, ticket] : tickets->second) returned_.insert(ticket.number);
  tickets_.erase(tickets);
}

void PaceKeeper::launch(const Launch& launch) { launch_ = launch; }

void PaceKeeper::finish(const std::string& reason) {
  if (!finished()) finished_ = reason.empty() ? "training is over" : reason;
}

bool PaceKeeper::fits(int rank, const StepRequest& request) const {
  if (waiting(rank)) return false;
  const std::int64_t clock = clocks_.clock(rank);
  if (rounds_.has_backups()) return request.clock >= clock;
  return request.clock == clock || (pace_.may_prefetch() && request.clock == clock + 1);
}

void PaceKeeper::ask(int rank, const StepRequest& request) {
  // A worker that was late skips the rounds that were decided without it.
  if (rounds_.has_backups()) clocks_.advance(rank, request.clock);
  requests_[rank] = request;
}

std::vector<PaceKeeper::Granted> PaceKeeper::answers() {
  std::vector<Granted> granted;
  for (auto request = requests_.begin(); request != requests_.end();) {
    if (auto found = answer(request->first, request->second)) {
      granted.push_back({request->first, std::move(*found)});
      request = requests_.erase(request);
    } else {
      ++request;
    }
  }
  return granted;
}

std::optional<StepAnswer> PaceKeeper::answer(int rank, const StepRequest& request) {
  if (!launched()) return std::nullopt;
  if (finished()) return over(request, finished_);
  if (role_ == ServerRole::clock && !pace_.synchronous() && ended_ >= steps()) {
    return over(request, text("step ", launch_->last_step, ", the last one, has ended"));
  }
  if (!in_pace(request)) return std::nullopt;
  if (role_ == ServerRole::clock) return grant(rank, request);
  StepAnswer values;
  values.clock = request.clock;
  return values;
}

bool PaceKeeper::in_pace(const StepRequest& request) const {
  if (rounds_.has_backups()) {
    const bool decides = role_ == ServerRole::clock;
    const std::int64_t clock = decides ? rounds_.decided() : request.clock;
    const auto& awaited = decides ? rounds_.contributors() : request.contributors;
    return std::all_of(awaited.begin(), awaited.end(), [&](int rank) {
      const bool known = rank < clocks_.world_size() && clocks_.takes_part(rank, clock - 1);
      return !known || clocks_.clock(rank) >= clock;
    });
  }
  if (!pace_.staleness_bound) return true;
  return clocks_.slowest().clock >= request.clock - *pace_.staleness_bound;
}

std::optional<StepAnswer> PaceKeeper::grant(int rank, const StepRequest& request) {
  StepAnswer answer;
  answer.clock = request.clock;
  answer.last_step = launch_->last_step;
  if (pace_.synchronous()) {
    if (rounds_.has_backups()) {
      answer.clock = rounds_.decided();
      answer.contributors = rounds_.contributors();
      clocks_.advance(rank, answer.clock);
    }
    if (answer.clock >= steps()) {
      return over(request, text("step ", launch_->last_step, ", the last one, has ended"));
    }
    furthest_ = std::max(furthest_, answer.clock + 1);
    answer.step = launch_->step + answer.clock + 1;
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
  tickets_[rank][request.clock] = ticket;
  answer.step = launch_->step + ticket.number;
  return answer;
}

StepAnswer PaceKeeper::over(const StepRequest& request, const std::string& why) const {
  StepAnswer answer;
  answer.clock = request.clock;
  answer.last_step = step();
  answer.ended = why;
  return answer;
}

bool PaceKeeper::end(int rank, std::int64_t clock) {
  const std::int64_t former = clocks_.clock(rank);
  if (rounds_.has_backups() ? clock < former : clock != former + 1) return false;
  if (role_ == ServerRole::clock && !pace_.synchronous()) {
    auto& tickets = tickets_[rank];
    const auto ticket = tickets.find(former);
    if (ticket == tickets.end()) return false;
    const Read& read = ticket->second.read;
    ++statistics_.updates;
    ++statistics_.staleness[former - read.slowest];
    ++statistics_.missed[ended_ - read.ended];
    tickets.erase(ticket);
  }
  ++ended_;
  clocks_.advance(rank, clock);
  return true;
}

PaceKeeper::Read PaceKeeper::read_now() const {
  const auto slowest = clocks_.slowest();
  return {slowest.clock, ended_};
}

void PaceKeeper::refresh(int rank) {
  const auto tickets = tickets_.find(rank);
  if (tickets == tickets_.end()) return;
  for (auto& [clock, ticket] : tickets->second) ticket.read = read_now();
}

TargetClocks PaceKeeper::hold() {
  held_ = true;
  rounds_.hold();
  TargetClocks targets;
  if (rounds_.has_backups()) {
    for (const int rank : rounds_.contributors()) {
      if (clocks_.takes_part(rank, rounds_.decided() - 1)) targets[rank] = rounds_.decided();
    }
    return targets;
  }
  for (const int rank : clocks_.live_ranks()) {
    if (pace_.synchronous()) {
      targets[rank] = clocks_.clock(0);  // the round after it cannot end without the chief
      continue;
    }
    const auto tickets = tickets_.find(rank);
    // The chief collects between two steps: a ticket that it has already is not begun.
    const bool busy = rank != 0 && tickets != tickets_.end() && !tickets->second.empty();
    targets[rank] = busy ? tickets->second.rbegin()->first + 1 : clocks_.clock(rank);
  }
  return targets;
}

void PaceKeeper::release() {
  held_ = false;
  rounds_.release();
}

bool PaceKeeper::reached(const TargetClocks& targets) const {
  return std::all_of(targets.begin(), targets.end(), [&](const auto& target) {
    const auto& [rank, clock] = target;
    const bool known = rank < clocks_.world_size() && clocks_.live(rank);
    return !known || clocks_.clock(rank) >= clock;
  });
}

std::int64_t PaceKeeper::ended() const {
  if (rounds_.has_backups() && role_ == ServerRole::clock) return rounds_.decided();
  if (!pace_.synchronous()) return ended_;
  const auto slowest = clocks_.slowest();
  return slowest.rank < 0 ? 0 : slowest.clock;
}

std::int64_t PaceKeeper::step() const { return launched() ? launch_->step + ended() : 0; }

std::vector<int> PaceKeeper::waits_for(int rank) const {
  std::vector<int> ranks;
  const auto request = requests_.find(rank);
  if (request == requests_.end()) return ranks;
  const std::int64_t bound = pace_.staleness_bound.value_or(0);
  for (const int other : clocks_.live_ranks()) {
    const auto tickets = tickets_.find(other);
    const bool has_ticket = tickets != tickets_.end() && !tickets->second.empty();
    const bool behind = pace_.staleness_bound && !rounds_.has_backups() &&
                        clocks_.clock(other) < request->second.clock - bound;
    if (other != rank && (behind || (in_pace(request->second) && has_ticket))) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

}  // namespace troupe
