// A worker of an elastic group with nothing to train: counts steps together with the others, and
// goes on with those that are left. `troupe run --min-workers M` starts it; variables say the rest:
//   ELASTIC_FAULTS   "kill 1 20;stop 2 30;exit 0 40;poison 50": what happens to which worker when
//   it
//                    computes that step, once in a run, or when all steps are done, where it
//                    would come next; poison kills the last rank, every time
//   ELASTIC_FOLDER   remembers what has happened
//   ELASTIC_STEPS    after so many it ends, but not before
//   ELASTIC_UNTIL    "3": as many train together; "waiting": others wait to join, in vain;
//                    "starting": another one has started, which then stops before it joins
//   ELASTIC_ROUND    not before this round
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "troupe/cli/options.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/failure.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/elastic/round_line.h"
#include "troupe/distributed/worker_group.h"

namespace {

using troupe::text;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

troupe::Deadline soon() { return troupe::Deadline::in(std::chrono::seconds(60)); }

/// Whether nobody has asked for this fault before.
bool is_first(const std::string& fault) {
  std::string path = variable("ELASTIC_FOLDER") + "/" + fault;
  for (char& c : path) c = c == ' ' ? '-' : c;
  const troupe::UniqueFd made(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  return made.get() >= 0;
}

void suffer(const std::string& kind) {
  if (kind == "kill" || kind == "poison") raise(SIGKILL);
  if (kind == "stop") raise(SIGSTOP);
  if (kind == "exit") std::_Exit(7);
}

std::string finish_mark() { return variable("ELASTIC_FOLDER") + "/finished"; }

/// What follows the training.
void finish() {
  const troupe::UniqueFd made(open(finish_mark().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

void await_finish() {
  const troupe::StopSignal stop;
  const auto ends = [&] {
    return stop.requested() > 0 || access(finish_mark().c_str(), F_OK) == 0;
  };
  (void)troupe::testing::eventually(ends);
  say(stop.requested() > 0 ? "evaluator: stopped" : "evaluator: finished");
}

/// What all workers hold.
struct State {
  std::int64_t step = 0;
  std::int64_t total = 0;  // of all steps' numbers: shows one that is left out or counted twice
};

class Worker {
 public:
  explicit Worker(const troupe::Options& options)
      : cluster_(options.strategy.cluster),
        group_options_(options.strategy.group),
        index_(cluster_.rank),
        line_(troupe::UniqueFd(cluster_.rounds.take())),
        listener_(cluster_.listener.take()) {
    group_options_.heartbeat_timeout = std::chrono::milliseconds(1'000);
    group_options_.heartbeat_interval = std::chrono::milliseconds(250);
  }

  void run() {
    troupe::Readiness ready;
    if (cluster_.joins && !begin_next(ready)) return;
    for (;;) {
      try {
        if (train()) {
          if (cluster_.rank == 0) finish();
          return say(text("ended after step ", state_.step, " with ", state_.total));
        }
        ready = {number_, holds_, true, state_.step, "", "", ""};
      } catch (const troupe::NetError& error) {
        const std::string cause = error.cause();
        ready = {number_,
                 holds_,
                 false,
                 state_.step,
                 cause.substr(0, cause.find(' ')),
                 cause,
                 text("number ", state_.step + 1)};
      }
      if (!begin_next(ready)) return;
    }
  }

 private:
  /// False: training is over.
  bool begin_next(const troupe::Readiness& ready) {
    if (ready.round == 0 && until_ == "starting" && is_first("start")) suffer("stop");
    if (ready.round == 0) say("knocks");
    const auto round = line_.next(ready);
    if (!round) {
      say("training is over");
      return false;
    }
    if (round->generation <= cluster_.generation)
      throw troupe::InternalError("a round has the generation of a former one.", "");
    number_ = round->number;
    cluster_.generation = round->generation;
    cluster_.rank = round->rank;
    cluster_.members.clear();
    for (const auto& member : round->members)
      cluster_.members.push_back({member.task, member.address});
    return true;
  }

  /// One round. True: training is over; false: others wait to join. Throws: NetError.
  bool train() {
    cluster_.listener = troupe::detail::InheritedSocket(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 3));
    troupe::WorkerGroup group(cluster_, group_options_);
    group.join({{"model"}, {}});
    take_newest(group);
    say(text("round ", number_, " as rank ", group.rank(), " of ", group.world_size()));
    for (;;) {
      meet_faults(group);
      if (stop_.requested() > 0) line_.ask_to_leave();
      const auto departure = line_.departure();
      const bool leaves = departure && departure->is_alone;
      const std::vector<std::int64_t> wishes = step(group, departure && !leaves, leaves);
      if (!holds_) {
        line_.started();
        say("holds the state");
      }
      holds_ = true;
      if (wishes[1] > 0) {
        group.close();
        say(text("saved step ", state_.step, " with ", state_.total));
        if (departure && !departure->cause.empty())
          throw troupe::PeerLost(departure->cause, departure->fix);
        throw troupe::Stopped("stopped.", "", SIGTERM);
      }
      if (leaves) leave(group);
      const bool over = is_over(group, wishes[2] > 0);
      if (!over && wishes[3] == 0 && (wishes[2] == 0 || is_deaf())) continue;
      group.close();
      if (over) meet_faults(group);
      return over;
    }
  }

  /// At the edge of a step: the others go on.
  [[noreturn]] void leave(troupe::WorkerGroup& group) {
    group.close();
    troupe::Readiness ready;
    ready.round = number_;
    ready.step = state_.step;
    ready.holds = ready.leaves = true;
    line_.leave(ready);
    say(text("left after step ", state_.step));
    throw troupe::Stopped("it left.", "", SIGTERM);
  }

  /// The state of whoever has come furthest: those that join have none.
  void take_newest(troupe::WorkerGroup& group) {
    const auto all =
        group.all_gather({reinterpret_cast<const std::byte*>(&state_), sizeof state_}, soon());
    for (const auto& bytes : all) {
      State other;
      std::memcpy(&other, bytes.data(), sizeof other);
      if (other.step > state_.step) state_ = other;
    }
    if (state_.step > 0) {
      line_.started();
      holds_ = true;
    }
  }

  std::vector<std::int64_t> step(troupe::WorkerGroup& group, bool stops, bool leaves) {
    const bool waits = until_ == "starting"
                           ? access((variable("ELASTIC_FOLDER") + "/start").c_str(), F_OK) == 0
                           : line_.joiners_wait();
    std::vector<std::int64_t> sums = {group.rank() == 0 ? state_.step + 1 : 0, stops ? 1 : 0,
                                      waits ? 1 : 0, leaves ? 1 : 0};
    group.all_reduce(troupe::Span<std::int64_t>(sums), soon());
    ++state_.step;
    state_.total += sums[0];
    return sums;
  }

  void meet_faults(const troupe::WorkerGroup& group) const {
    std::istringstream faults(variable("ELASTIC_FAULTS"));
    for (std::string fault; std::getline(faults, fault, ';');) {
      std::istringstream words(fault);
      std::string kind;
      int index = index_;
      std::int64_t at = 0;
      words >> kind;
      const bool poison = kind == "poison";
      if (!poison) words >> index;
      words >> at;
      if (at != state_.step + 1 || index != index_) continue;
      if (poison ? group.rank() == group.world_size() - 1 : is_first(fault)) suffer(kind);
    }
  }

  [[nodiscard]] bool is_deaf() const { return until_ == "waiting" || until_ == "starting"; }
  [[nodiscard]] bool is_over(const troupe::WorkerGroup& group, bool others_wait) const {
    if (state_.step < std::atoll(variable("ELASTIC_STEPS").c_str())) return false;
    if (number_ < static_cast<std::uint64_t>(std::atoll(variable("ELASTIC_ROUND").c_str())))
      return false;
    return is_deaf() ? others_wait : group.world_size() == std::atoi(until_.c_str());
  }

  const troupe::StopSignal stop_;
  troupe::Cluster cluster_;
  troupe::GroupOptions group_options_;
  const std::string until_ = variable("ELASTIC_UNTIL");
  const int index_;  // of worker/1, whatever its rank
  troupe::RoundLine line_;
  const troupe::UniqueFd listener_;
  std::uint64_t number_ = 1;
  bool holds_ = false;
  State state_;
};

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options = troupe::parse_options(argc, argv);
    if (options.strategy.cluster.is_evaluator()) return await_finish();
    Worker(options).run();
  });
}
