#include "troupe/distributed/elastic/rendezvous.h"

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// Between two pings of a worker that answers.
constexpr std::chrono::milliseconds kAskAgain{1'000};

constexpr const char* kLookAtStep =
    "look at what this step computes; a new start resumes before it.";

RoundVerdict no_progress(const StepLosses& losses) {
  return {RoundVerdict::Kind::no_progress, kExitFailed, losses.summary()};
}

std::string seconds(std::chrono::milliseconds time) { return text(Seconds(time).count(), " s"); }

void send(std::vector<RendezvousOrder>& orders, RoundWorker to, RendezvousMessage message) {
  orders.emplace_back(RoundLetter{to, std::move(message)});
}

}  // namespace

void StepLosses::add(std::int64_t step, const std::vector<std::string>& lost) {
  if (step != step_) {
    count_ = 0;
    lost_.clear();
  }
  step_ = step;
  ++count_;
  lost_.insert(lost_.end(), lost.begin(), lost.end());
}

std::string StepLosses::summary() const {
  return text("step ", step_ + 1, " was lost ", count_, " times in a row: ", join(lost_, "; "));
}

Rendezvous::Rendezvous(const RendezvousTerms& terms, Round first, StepLosses& losses,
                       NextGeneration next_generation)
    : terms_(terms),
      losses_(losses),
      next_generation_(std::move(next_generation)),
      number_(first.number),
      generation_(first.generation) {
  for (Round::Member& member : first.members) {
    Place place;
    place.rank = place.who.index = static_cast<int>(places_.size());
    place.member = std::move(member);
    places_.push_back(std::move(place));
  }
}

RoundWorker Rendezvous::starts(int index, const Endpoint& address) {
  Place& former = places_[static_cast<std::size_t>(index)];
  if (former.lives && former.member.address.port == 0) {
    former.member.address = address;
    return former.who;
  }
  Place place;
  place.who = {index, former.who.incarnation + 1};
  place.member = {former.member.task, address, false};
  former = std::move(place);
  return former.who;
}

void Rendezvous::take(RoundWorker from, const WorkerMessage& message, TimePoint now) {
  Place* const place = find(from);
  if (place == nullptr || place->dismissed) return;
  if (const auto* ready = std::get_if<Readiness>(&message)) {
    take_ready(*place, *ready, now);
  } else if (std::holds_alternative<Started>(message)) {
    if (place->rank < 0) return refuse(from, "holds the state of a group that it joins", now);
    place->member.holds = has_started_ = true;
  } else if (std::holds_alternative<LeaveRequest>(message)) {
    // A signal to the launcher reaches all workers, and is known here before they ask.
    send(orders_, from, stop_.value_or(Departure{/*is_alone=*/true, "", ""}));
  } else if (place->asked) {
    place->asked.reset();
    place->answered = now;
  }
  advance(now);
}

void Rendezvous::take_ready(Place& place, const Readiness& ready, TimePoint now) {
  const bool joins = place.rank < 0;
  if (place.ready || ready.round != (joins ? 0 : number_))
    return expel(place, text("leaves round ", ready.round, ", which it is not in"));
  place.ready = ready;
  place.asked.reset();
  place.member.holds = ready.holds;
  if (joins) return;
  if (ready.leaves) {
    place.dismissed = place.has_left = ending_.has_leaver = true;
    place.overdue = now + terms_.ending_limit;
  }
  if (!ending_.since) ending_.since = now;
  if (!ending_.left_since) ending_.left_since = now;
  if (ready.holds) {
    has_started_ = true;
    ending_.step = std::max(ending_.step.value_or(ready.step), ready.step);
  }
  if (ready.lost.empty()) return;
  ending_.works[ready.lost] = ready.work;
  if (!ending_.accused.insert(ready.lost).second) return;
  for (Place& accused : places_)
    if (accused.member.task == ready.lost) accused.answered.reset();  // it is asked at once
}

void Rendezvous::refuse(RoundWorker from, const std::string& what, TimePoint now) {
  Place* const place = find(from);
  if (place != nullptr && !place->dismissed) expel(*place, what);
  advance(now);
}

bool Rendezvous::ended(RoundWorker who, std::optional<int> exit_code, TimePoint now,
                       std::optional<TimePoint> since) {
  Place* const place = find(who);
  if (place == nullptr) return false;
  place->lives = false;
  const bool has_led = place->rank == 0;
  if (place->has_left) {
    advance(now);
    return has_led;
  }
  if (place->rank >= 0 && exit_code) {
    if (!done_)
      done_ = EndOfRounds{*exit_code,
                          text(place->member.task, " ended with exit code ", *exit_code, "."),
                          text("look at the log of ", place->member.task, ".")};
  } else if (place->rank >= 0) {
    const TimePoint when = since.value_or(now);
    ending_.since = std::min(ending_.since.value_or(when), when);
    ending_.lost.push_back(place->member.task);
    ending_.state_was_lost = ending_.state_was_lost || place->member.holds;
    for (const Place& other : places_) {  // that may wait for it, or to meet it
      if (other.lives && !other.dismissed && other.rank >= 0 && !other.ready)
        send(orders_, other.who,
             RoundLoss{number_, place->member.task,
                       text(place->member.task, " is gone: its process has ended.")});
    }
  }
  advance(now);
  return has_led;
}

void Rendezvous::stop(TimePoint now) {
  if (!stop_) stop_.emplace();
  expel_joiners();
  advance(now);
}

std::vector<RendezvousOrder> Rendezvous::take_orders() { return std::exchange(orders_, {}); }

void Rendezvous::advance(TimePoint now) {
  wakes_at_.reset();
  if (is_over_) return;
  if (done_) return end_waiting(*done_);
  tell_waiting();
  if (state_is_lost()) {
    count_loss(ending_.state_was_lost);
    if (losses_.is_over()) return conclude(no_progress(losses_), kLookAtStep);
    return conclude(
        {RoundVerdict::Kind::state_lost, kExitPeerLost, "no worker is left that holds the state"},
        kRunAgain);
  }
  if (ending_.since && all_have_left(now)) form(now);
}

/// Who has not left the round yet may hold it.
bool Rendezvous::state_is_lost() const {
  return std::none_of(places_.begin(), places_.end(), [](const Place& place) {
    return place.lives && !place.dismissed && place.rank >= 0 &&
           (!place.ready || place.ready->holds);
  });
}

/// And those that were expelled have ended.
bool Rendezvous::all_have_left(TimePoint now) {
  bool all = true;
  for (Place& place : places_) {
    if (!place.lives || (!place.dismissed && (place.rank < 0 || place.ready))) continue;
    all = false;
    if (!place.dismissed) ask(place, now);
    if (place.overdue && now >= *place.overdue) {
      place.overdue.reset();
      expel(place, text("left, and did not end within ", seconds(terms_.ending_limit)));
    }
    if (place.overdue) wakes_at_ = std::min(wakes_at_.value_or(*place.overdue), *place.overdue);
  }
  return all;
}

void Rendezvous::ask(Place& place, TimePoint now) {
  const bool accused = ending_.accused.count(place.member.task) > 0;
  const auto limit = accused ? terms_.accused_limit : terms_.silence_limit;
  if (ending_.left_since && now >= *ending_.left_since + terms_.leave_limit)
    return expel(place, text("did not leave round ", number_, ", which others have left, within ",
                             seconds(terms_.leave_limit)));
  if (place.asked && now >= *place.asked + limit)
    return expel(place, text("gave no sign of life for ", seconds(limit)));
  if (!place.asked && (!place.answered || now >= *place.answered + kAskAgain)) {
    place.asked = now;
    send(orders_, place.who, Ping{});
  }
  TimePoint next = place.asked ? *place.asked + limit : *place.answered + kAskAgain;
  if (ending_.left_since) next = std::min(next, *ending_.left_since + terms_.leave_limit);
  wakes_at_ = std::min(wakes_at_.value_or(next), next);
}

/// Of a round once: its workers have tried one step.
void Rendezvous::count_loss(bool failed) {
  const auto step = ending_.step ? ending_.step : retried_;
  if (std::exchange(ending_.is_counted, true) || !failed || !step) return;
  ending_.failed = true;
  std::vector<std::string> lost = ending_.lost;
  if (lost.empty()) lost.assign(ending_.accused.begin(), ending_.accused.end());
  for (std::string& task : lost) {
    const auto work = ending_.works.find(task);
    if (work != ending_.works.end() && !work->second.empty()) task += " (" + work->second + ")";
  }
  losses_.add(*step, lost);
}

/// All that live have left the round, and at least one of them holds the state.
void Rendezvous::form(TimePoint now) {
  std::vector<Place*> members;
  bool admits = false;
  for (Place& place : places_) {
    if (!place.lives || !place.ready || !place.ready->holds) continue;
    members.push_back(&place);
    admits = admits || place.ready->admits;
  }
  // The first is the next chief: one that is left stays, else the next that can lead.
  std::sort(members.begin(), members.end(), [](const Place* a, const Place* b) {
    return std::pair(!a->ready->leads, a->rank) < std::pair(!b->ready->leads, b->rank);
  });
  count_loss(ending_.state_was_lost || (ending_.lost.empty() && !admits && !ending_.has_leaver));
  if (losses_.is_over()) return conclude(no_progress(losses_), kLookAtStep);
  if (!members.front()->ready->leads)
    return conclude({RoundVerdict::Kind::no_chief, kExitPeerLost,
                     "no worker is left that sees the model directory of the run"},
                    kRunAgain);
  const auto least = static_cast<std::size_t>(stop_ ? 1 : terms_.min_workers);
  std::vector<Place*> joining;
  // Those that repeat a step come without them, and let them in at its edge.
  if (!stop_) joining = waiting();
  const bool enough = members.size() + joining.size() >= least;
  if (!admits) joining.clear();
  members.insert(members.end(), joining.begin(), joining.end());
  if (enough) return issue(members, joining.size(), now);
  if (!ending_.too_few_since) ending_.too_few_since = now;
  wakes_at_ = *ending_.too_few_since + terms_.regroup_limit;
  if (now < *wakes_at_) return;
  wakes_at_.reset();
  // In a round for that alone they complete the step under way, and save.
  const std::string cause =
      text("fewer than ", terms_.min_workers, " workers (--min-workers) were left for ",
           seconds(terms_.regroup_limit), " (--regroup-secs)");
  stop_ = Departure{/*is_alone=*/false, cause + ".", kRunAgain};
  for (const Place* place : members) send(orders_, place->who, *stop_);
  is_told_ = true;
  orders_.emplace_back(RoundVerdict{RoundVerdict::Kind::too_few, kExitPeerLost, cause});
  issue(members, 0, now);
}

void Rendezvous::issue(const std::vector<Place*>& members, std::size_t joined, TimePoint now) {
  Round round;
  round.number = ++number_;
  round.generation = generation_ = next_generation_(generation_);
  for (Place& place : places_) place.rank = -1;
  for (Place* place : members) {
    place->rank = static_cast<int>(round.members.size());
    place->ready.reset();
    place->asked.reset();
    place->answered.reset();
    round.members.push_back(place->member);
  }
  if (stop_) expel_joiners();
  tell_waiting();  // first: who begins a round knows whether others wait
  for (const Place* place : members) {
    round.rank = place->rank;
    send(orders_, place->who, round);
  }
  retried_ = ending_.failed ? ending_.step : std::nullopt;
  orders_.emplace_back(
      RoundBegin{number_, static_cast<int>(members.size()), static_cast<int>(joined),
                 std::chrono::duration_cast<std::chrono::milliseconds>(now - *ending_.since),
                 ending_.step.value_or(0)});
  ending_ = {};
}

void Rendezvous::tell_waiting() {
  const int count = static_cast<int>(waiting().size());
  for (Place& place : places_) {
    const bool trains = place.lives && !place.dismissed && place.rank >= 0 && !place.ready;
    if (!trains || place.told_waiting == count) continue;
    place.told_waiting = count;
    send(orders_, place.who, Waiting{count});
  }
}

void Rendezvous::conclude(const RoundVerdict& verdict, const std::string& fix) {
  is_over_ = true;
  wakes_at_.reset();
  if (verdict.kind == RoundVerdict::Kind::state_lost)
    expel_joiners();  // nobody else is left
  else
    end_waiting({verdict.exit_code, verdict.cause + ".", fix});
  if (!is_told_) orders_.emplace_back(verdict);
}

/// Those that will wait only later have nothing to begin with.
void Rendezvous::end_waiting(const EndOfRounds& end) {
  for (Place& place : places_) {
    if (!place.lives || place.dismissed) continue;
    if (place.ready) {
      place.dismissed = true;
      send(orders_, place.who, end);
    } else if (place.rank < 0) {
      expel(place, "");
    }
  }
}

void Rendezvous::expel(Place& place, const std::string& why) {
  place.dismissed = true;
  orders_.emplace_back(Expulsion{place.who, why.empty() ? why : text(place.member.task, " ", why)});
}

void Rendezvous::expel_joiners() {
  for (Place& place : places_) {
    const bool has_state = place.rank >= 0 && (!place.ready || place.ready->holds);
    if (place.lives && !place.dismissed && !has_state) expel(place, "");
  }
}

Rendezvous::Place* Rendezvous::find(RoundWorker who) {
  if (who.index < 0 || static_cast<std::size_t>(who.index) >= places_.size()) return nullptr;
  Place& place = places_[static_cast<std::size_t>(who.index)];
  return place.lives && place.who.incarnation == who.incarnation ? &place : nullptr;
}

/// By index.
std::vector<Rendezvous::Place*> Rendezvous::waiting() {
  std::vector<Place*> found;
  for (Place& place : places_)
    if (place.lives && !place.dismissed && place.ready && !place.ready->holds)
      found.push_back(&place);
  return found;
}

}  // namespace troupe
