// ElasticLauncher: what a launcher does for the workers of a simulated elastic group: the real
// Rendezvous, with a line to each process, starts and restarts. It knows of every process and round
// that there was, and what must hold of them at any time, it checks at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/elastic_plan.h"
#include "tests/simulation/network.h"
#include "tests/simulation/packets.h"
#include "troupe/core/options/cluster.h"
#include "troupe/distributed/elastic/rendezvous.h"

namespace troupe::simulation {

/// A process that is, or was, a worker of an elastic group.
struct Life {
  RoundWorker who;
  int number = 0;  // of all processes of this world
  Process* process = nullptr;
  Endpoint address;
  std::shared_ptr<Packets> line;
  std::uint64_t round = 0;  // that was issued to it, and that it has not left
  bool is_expelled = false;
  bool is_dismissed = false;  // because it was needed no longer
  bool is_leaving = false;    // all rounds, as it says
  bool is_gone = false;       // as the launcher knows: later than it ends

  // What came of it.
  bool holds = false;  // the state
  int step = 0;        // that it is at
  bool is_done = false;
  bool found_nothing = false;  // NothingLeft
  bool has_saved = false;      // to end with all
  std::string kind;            // of its error: "peer-lost"
  std::string cause;
  int exit_code = 0;
  std::string violation;   // what it saw that may not be
  double stood_still = 0;  // s, at most, from a round to the next
};

class ElasticLauncher {
 public:
  using OnPlace = std::function<void(Life& life, Place place)>;
  /// `live` runs inside each process; `cluster` and `line` are what it is told.
  using Body = std::function<void(Life& life, const Cluster& cluster, int line)>;
  /// `on_place`: a process has come to a place that the rendezvous knows of.
  ElasticLauncher(const ElasticPlan& plan, Body live, OnPlace on_place);

  void start_all();
  /// It was killed.
  void on_death(const Process& process);
  /// What befell this worker may make it look lost while it lives.
  void suspect(int index) { suspects_.insert(index); }
  void count_kill() { ++kills_; }
  /// The next round, if there is one, begins by then.
  void expect_round_by(Time when) { round_due_ = when; }

  /// It will start a process, or learn of the end of one.
  [[nodiscard]] bool is_busy() const { return pending_ > 0; }
  /// Null: no process of this worker runs.
  [[nodiscard]] Life* present(int index);
  [[nodiscard]] const std::deque<Life>& lives() const { return lives_; }
  /// "", or what is wrong with `life` being in this cluster.
  [[nodiscard]] std::string objection(const Life& life, const Cluster& cluster) const;
  /// Numbers of a round's processes, by rank.
  [[nodiscard]] std::vector<int> members_of(std::uint64_t generation) const;
  [[nodiscard]] const std::string& violation() const { return violation_; }
  /// The group had no state yet when it lost somebody: all are to be started anew.
  [[nodiscard]] bool has_failed_to_start() const { return has_failed_to_start_; }
  [[nodiscard]] const std::optional<RoundVerdict>& verdict() const { return verdict_; }
  [[nodiscard]] int rounds() const { return static_cast<int>(rounds_.size()); }
  [[nodiscard]] int joined() const { return joined_; }

 private:
  struct IssuedRound {
    std::uint64_t number = 0;
    std::vector<const Life*> members;  // by rank
  };

  Life& add_life(RoundWorker who);
  void start(Life& life);
  void start_again(int index);
  void on_exit(Life& life);
  void learn_of_end(Life& life, std::optional<int> exit_code);
  void ended(Life& life, std::optional<int> exit_code);
  void take(Life& life, const std::string& packet);
  void carry_out();
  void carry_out(const Expulsion& order);
  void carry_out(const RoundLetter& order);
  void carry_out(const RoundBegin& order);
  void carry_out(const RoundVerdict& order);
  void note_round(const Round& round, Life& to);
  void note_new_round(const Round& round, IssuedRound& issued);
  void wake_in_time();
  void complain(const std::string& what);
  [[nodiscard]] Life& last_of(int index);

  const ElasticPlan& plan_;
  const Body live_;
  const OnPlace on_place_;
  StepLosses losses_;
  std::deque<Life> lives_;  // by number
  std::vector<Member> members_;
  std::optional<Rendezvous> rendezvous_;
  std::map<std::uint64_t, IssuedRound> rounds_;  // by generation
  std::set<int> suspects_;
  std::optional<RoundVerdict> verdict_;
  std::string violation_;
  Random choices_;
  std::uint64_t last_number_ = 1;
  std::optional<Time> round_due_;
  std::uint64_t timer_ = 0;
  int pending_ = 0;
  int restarts_ = 0;
  int joined_ = 0;
  int kills_ = 0;
  bool is_done_ = false;
  bool has_failed_to_start_ = false;
};

}  // namespace troupe::simulation
