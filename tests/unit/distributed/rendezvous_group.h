// RendezvousGroup: workers that exist only as what they say, and a time that tests set.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/text.h"
#include "troupe/distributed/elastic/rendezvous.h"

namespace troupe::testing {

class RendezvousGroup {
 public:
  using Milliseconds = std::chrono::milliseconds;

  RendezvousGroup(int workers, int min_workers, StepLosses& losses)
      : incarnations_(static_cast<std::size_t>(workers)),
        rendezvous_({min_workers}, first_round(workers), losses,
                    [](std::uint64_t former) { return former + 1; }) {}

  /// All of round 1 hold the state.
  RendezvousGroup& train() {
    for (std::size_t i = 0; i < incarnations_.size(); ++i) say(static_cast<int>(i), Started{});
    return *this;
  }
  void say(int index, const WorkerMessage& message) {
    rendezvous_.take(worker(index), message, now_);
    carry_out();
  }
  /// It holds the state after `step`, and names who is lost.
  void leave(int index, std::uint64_t round, std::int64_t step, const std::string& lost = "",
             const std::string& work = "") {
    say(index, Readiness{round, true, false, step, lost, lost + " is gone.", work});
  }
  /// It cannot be the chief.
  void leave_blind(int index, std::uint64_t round, std::int64_t step) {
    say(index, Readiness{round, true, false, step, "", "", "", /*leaves=*/false, /*leads=*/false});
  }
  /// To let others in.
  void admit(int index, std::uint64_t round, std::int64_t step) {
    say(index, Readiness{round, true, true, step, "", "", ""});
  }
  /// All rounds, because it was told to end.
  void quit(int index, std::uint64_t round, std::int64_t step) {
    say(index, Readiness{round, true, false, step, "", "", "", /*leaves=*/true});
  }
  /// It was given no state yet.
  void leave_empty(int index, std::uint64_t round) {
    say(index, Readiness{round, false, false, 0, "", "", ""});
  }
  void lose(int index) {
    rendezvous_.ended(worker(index), std::nullopt, now_);
    carry_out();
  }
  void finish(int index, int exit_code = 0) {
    rendezvous_.ended(worker(index), exit_code, now_);
    carry_out();
  }
  /// Started again, and with all it needs to join.
  void knock(int index) {
    restart(index);
    say(index, Readiness{});
  }
  void restart(int index) {
    incarnations_[static_cast<std::size_t>(index)] =
        rendezvous_.starts(index, {"127.0.0.1", static_cast<std::uint16_t>(2000 + index)})
            .incarnation;
  }
  void stop() {
    rendezvous_.stop(now_);
    carry_out();
  }
  /// Ticks when it is asked to, and at the end.
  void wait(Milliseconds time) {
    const auto end = now_ + time;
    for (auto wake = rendezvous_.wakes_at(); wake && *wake <= end; wake = rendezvous_.wakes_at()) {
      now_ = *wake;
      rendezvous_.tick(now_);
      carry_out();
    }
    now_ = end;
    rendezvous_.tick(now_);
    carry_out();
  }

  /// What it has ordered since the last call: "ping worker/1", "expel worker/1", "round 2 to
  /// worker/0: worker/0* worker/1" (* holds the state).
  [[nodiscard]] std::vector<std::string> said() { return std::exchange(said_, {}); }
  [[nodiscard]] const std::string& last() const { return last_; }  // text of an end or an expulsion
  [[nodiscard]] Rendezvous& rendezvous() { return rendezvous_; }
  [[nodiscard]] const RoundBegin& begin() const { return begin_; }
  [[nodiscard]] RoundWorker worker(int index) const {
    return {index, incarnations_[static_cast<std::size_t>(index)]};
  }
  [[nodiscard]] Rendezvous::TimePoint now() const { return now_; }

 private:
  static Round first_round(int workers) {
    Round round{1, 100, 0, {}};
    for (int i = 0; i < workers; ++i)
      round.members.push_back(
          {text("worker/", i), {"127.0.0.1", static_cast<std::uint16_t>(1000 + i)}, false});
    return round;
  }

  void carry_out() {
    for (const RendezvousOrder& order : rendezvous_.take_orders())
      std::visit([this](const auto& each) { note(each); }, order);
  }
  void note(const Expulsion& order) {
    said_.push_back(text(order.why.empty() ? "dismiss worker/" : "expel worker/", order.who.index));
    last_ = order.why;
  }
  void note(const RoundBegin& order) { begin_ = order; }
  void note(const RoundVerdict& order) {
    constexpr const char* kNames[] = {"state lost", "no chief", "too few", "no progress"};
    said_.push_back(text("verdict: ", kNames[static_cast<int>(order.kind)]));
    last_ = order.cause;
  }
  void note(const RoundLetter& order) {
    const std::string to = text("worker/", order.to.index);
    if (std::holds_alternative<Ping>(order.message)) said_.push_back("ping " + to);
    if (const auto* waiting = std::get_if<Waiting>(&order.message))
      said_.push_back(text("waiting ", waiting->count, " to ", to));
    if (const auto* end = std::get_if<EndOfRounds>(&order.message))
      said_.push_back(text("end ", end->exit_code, " to ", to));
    if (const auto* departure = std::get_if<Departure>(&order.message))
      said_.push_back(text(departure->is_alone ? "leave alone to " : "leave with all to ", to));
    if (const auto* round = std::get_if<Round>(&order.message)) {
      const auto rank = static_cast<std::size_t>(round->rank);
      std::string line = text("round ", round->number, " to ",
                              rank < round->members.size() ? round->members[rank].task : "", ":");
      for (const auto& member : round->members)
        line += " " + member.task + (member.holds ? "*" : "");
      said_.push_back(line);
    }
  }

  Rendezvous::TimePoint now_{};
  std::vector<int> incarnations_;  // by index
  Rendezvous rendezvous_;
  std::vector<std::string> said_;
  std::string last_;
  RoundBegin begin_;
};

}  // namespace troupe::testing
