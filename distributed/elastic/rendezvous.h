// Rendezvous: the only issuer of an elastic group's rounds (rounds.h). Decisions only, without
// sockets, processes or a clock: its owner tells it what happens, and carries its orders out.
//
// A round ends when one of its workers is lost or leaves it. The next is issued when every worker
// of the old one that lives has left it, too: it asks those that say nothing whether they live, and
// has those expelled that do not. An expelled process has ended before a round is issued without
// it, for even a stopped one holds locks and shared memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/distributed/elastic/round_messages.h"
#include "troupe/distributed/elastic/rounds.h"

namespace troupe {

/// Whether an elastic group makes progress: losses while one and the same step was computed. What
/// kills every worker that computes it, an example or a machine, would otherwise take one after the
/// other. Outlives the group: a step that has killed all
/// workers may kill them again after a restart from a checkpoint.
class StepLosses {
 public:
  static constexpr int kMost = 3;

  /// A round was lost after `step`, the last one complete. `lost`: who is gone, each with what it
  /// was computing. Workers that are lost together count once: they tried the step once.
  void add(std::int64_t step, const std::vector<std::string>& lost);
  /// The same step has been lost kMost times in a row.
  [[nodiscard]] bool is_over() const { return count_ >= kMost; }
  /// "step 121 was lost 3 times in a row: worker/1 (examples 17, 99); worker/0; worker/2"
  [[nodiscard]] std::string summary() const;

 private:
  std::int64_t step_ = -1;
  int count_ = 0;
  std::vector<std::string> lost_;
};

struct RendezvousTerms {
  int min_workers = 1;                              // that hold the state, or join those that do
  std::chrono::milliseconds regroup_limit{60'000};  // for workers to join where there are fewer
  /// For the answer to a ping, of a worker that another one calls lost, and of any other.
  std::chrono::milliseconds accused_limit{500};
  std::chrono::milliseconds silence_limit{5'000};
  /// For a worker that answers to leave a round that others have left: it is about to miss them in
  /// a collective.
  std::chrono::milliseconds leave_limit{300'000};
  /// For the process of one that has left all rounds to end.
  std::chrono::milliseconds ending_limit{5'000};
};

/// A process: the `incarnation`-th that was started as this worker, from 0 on.
struct RoundWorker {
  int index = 0;
  int incarnation = 0;
};

// Orders.

/// The process gets SIGKILL. `why`: "worker/1 gave no sign of life for 0.5 s"; empty: it is needed
/// no longer.
struct Expulsion {
  RoundWorker who;
  std::string why;
};
struct RoundLetter {
  RoundWorker to;
  RendezvousMessage message;
};
/// A round begins; for the log.
struct RoundBegin {
  std::uint64_t number = 0;
  int workers = 0;
  int joined = 0;                           // of them
  std::chrono::milliseconds stood_still{};  // since the loss that ended the former one
  std::int64_t step = 0;                    // the last one that is complete
};
/// The group ends. Those that wait for a round are told, or expelled, by orders before this one;
/// but too few form rounds until they have saved.
struct RoundVerdict {
  enum class Kind {
    state_lost,  // nobody is left that holds the state
    no_chief,    // nor, of those, that can lead the others
    too_few,     // nor came in time
    no_progress  // StepLosses
  };
  Kind kind = Kind::state_lost;
  int exit_code = 0;  // that those get who wait
  std::string cause;  // without a full stop
};
using RendezvousOrder = std::variant<Expulsion, RoundLetter, RoundBegin, RoundVerdict>;

class Rendezvous {
 public:
  using TimePoint = Clock::TimePoint;
  /// The number of a later start or round of the same job.
  using NextGeneration = std::function<std::uint64_t(std::uint64_t former)>;

  /// `first`: round 1, which begins as its workers are started, by index; nobody holds the state
  /// until it says so. `losses` outlives it.
  Rendezvous(const RendezvousTerms& terms, Round first, StepLosses& losses,
             NextGeneration next_generation);

  /// A process starts as this worker and listens there; it is returned. One of round 1, if `first`
  /// did not say where it listens; else in the place of one that was lost, and it will join.
  RoundWorker starts(int index, const Endpoint& address);
  /// Of a former incarnation: nothing.
  void take(RoundWorker from, const WorkerMessage& message, TimePoint now);
  /// What came from it is no message, or cannot be meant.
  void refuse(RoundWorker from, const std::string& what, TimePoint now);
  /// The process has ended; all that it said has been taken. `exit_code`: with which it ended by
  /// itself, its work being done, failed or saved; unset: it is lost. `since`: when that was, if it
  /// is told late; since then training stands still. Returns whether it was the chief of the
  /// present round.
  bool ended(RoundWorker who, std::optional<int> exit_code, TimePoint now,
             std::optional<TimePoint> since = std::nullopt);
  /// The group is to save and stop: those that are left form rounds for it, and nobody joins or
  /// leaves. Workers learn of it when they ask to leave.
  void stop(TimePoint now);
  /// When wakes_at() has come.
  void tick(TimePoint now) { advance(now); }

  [[nodiscard]] std::optional<TimePoint> wakes_at() const { return wakes_at_; }
  /// In this order.
  [[nodiscard]] std::vector<RendezvousOrder> take_orders();
  /// A worker holds, or held, the state: from now on losses do not end the group.
  [[nodiscard]] bool has_started() const { return has_started_; }

 private:
  /// A worker, by whichever process it is at present.
  struct Place {
    RoundWorker who;
    Round::Member member;
    bool lives = true;
    bool dismissed = false;            // expelled, told to end, or gone by itself
    bool has_left = false;             // all rounds
    std::optional<TimePoint> overdue;  // when it has left and its process is to have ended
    int rank = -1;                     // in the present round; -1: it joins
    std::optional<Readiness> ready;    // for the next
    std::optional<TimePoint> asked;    // a ping that has no answer
    std::optional<TimePoint> answered;
    int told_waiting = 0;
  };
  /// What is known of the end of the present round.
  struct Ending {
    std::optional<TimePoint> since;            // a worker is lost, or has left
    std::optional<TimePoint> left_since;       // a worker has left
    std::optional<TimePoint> too_few_since;    // all have
    std::optional<std::int64_t> step;          // the last one that is complete
    std::set<std::string> accused;             // by those that have left
    std::map<std::string, std::string> works;  // by task: what it was computing
    std::vector<std::string> lost;             // tasks
    bool state_was_lost = false;               // one of them held it
    bool has_leaver = false;                   // whom others may take for lost
    bool failed = false;                       // no joining is its reason
    bool is_counted = false;                   // in losses_
  };

  void advance(TimePoint now);
  void take_ready(Place& place, const Readiness& ready, TimePoint now);
  [[nodiscard]] bool state_is_lost() const;
  [[nodiscard]] bool all_have_left(TimePoint now);
  void ask(Place& place, TimePoint now);
  void count_loss(bool failed);
  void form(TimePoint now);
  void issue(const std::vector<Place*>& members, std::size_t joined, TimePoint now);
  void tell_waiting();
  void conclude(const RoundVerdict& verdict, const std::string& fix);
  void end_waiting(const EndOfRounds& end);
  void expel(Place& place, const std::string& why);
  void expel_joiners();
  [[nodiscard]] Place* find(RoundWorker who);
  [[nodiscard]] std::vector<Place*> waiting();

  const RendezvousTerms terms_;
  StepLosses& losses_;
  const NextGeneration next_generation_;
  std::vector<Place> places_;  // by index
  std::uint64_t number_;       // of the present round
  std::uint64_t generation_;
  Ending ending_;
  std::optional<std::int64_t> retried_;  // the last step before the loss that the round repeats
  std::vector<RendezvousOrder> orders_;
  std::optional<TimePoint> wakes_at_;
  std::optional<EndOfRounds> done_;  // a worker of a round has ended by itself
  bool has_started_ = false;
  std::optional<Departure> stop_;  // all are to save and stop
  bool is_told_ = false;           // the verdict
  bool is_over_ = false;
};

}  // namespace troupe
