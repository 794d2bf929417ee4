#include "tests/simulation/elastic_worker.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>

#include "tests/support/eventually.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/distributed/elastic/elastic_group.h"
#include "troupe/distributed/elastic/round_line.h"
#include "troupe/distributed/group/tree_cut.h"
#include "troupe/report/outbox.h"

namespace troupe::simulation {
namespace {

constexpr int kLeaves = 8;

double leaf_value(int step, int leaf) { return (step + 1) * 1000.0 + leaf; }

double sum_of(int step, TreeCut::Node node) {
  double sum = 0;
  for (int leaf = node.begin; leaf < node.end; ++leaf) sum += leaf_value(step, leaf);
  return sum;
}

/// The state after a step, which no other sequence of steps gives.
std::uint64_t apply(std::uint64_t state, double large, double small) {
  return Random(state ^ static_cast<std::uint64_t>(large * 1'000 + small)).next();
}

std::uint64_t state_after(int steps) {
  std::uint64_t state = 0;
  for (int step = 0; step < steps; ++step) {
    const double all = sum_of(step, {0, kLeaves});
    state = apply(state, all, 2 * all);
  }
  return state;
}

class Training {
 public:
  Training(const ElasticPlan& plan, Life& life, const Cluster& cluster, int line,
           const Witness& witness)
      : plan_(plan),
        life_(life),
        witness_(witness),
        joins_(cluster.joins),
        outbox_(cluster.rank == 0 && !cluster.joins ? Outbox::Role::leader
                                                    : Outbox::Role::follower),
        group_(cluster, plan.options, std::make_unique<RoundLine>(UniqueFd(line)),
               {[this] { begin_round(); }, [this](Readiness& mine, int /*lost*/) { leave(mine); },
                [this] { return plan_.sees[static_cast<std::size_t>(life_.who.index)]; }}) {}

  void run() {
    pass(Place::start);
    group_.join({{"weight float32 [3]"}, {}});
    if (joins_) {
      group_.enter([this] { share(); });
    } else {
      group_.start();
      life_.holds = true;
    }
    while (life_.step < plan_.steps) {
      take_step();
      follow();
      report();
      Votes votes = vote();
      for (; votes.told == 0; votes = vote()) follow();
      outbox_.acknowledge();
      acknowledged_ = life_.step * kRecordsOfStep;
      if (votes.end > 0) end_all(votes);
      if (life_.step == plan_.steps) break;
      if (has_quit_) leave();
      if (votes.admit > 0 || votes.quit > 0) group_.admit([this] { share(); });
      for (const GroupChange& change : group_.take_changes())
        life_.stood_still = std::max(life_.stood_still, change.seconds);
    }
    pass(Place::closing);
    group_.close();
    life_.is_done = true;
  }

 private:
  struct Votes {
    double admit = 0;   // who knows that somebody waits
    double quit = 0;    // who leaves the others
    double voters = 1;  // all
    double end = 0;     // who knows that all are to save and end
    double told = 0;    // who leads, and has told what the steps came to
  };

  void follow() {
    if (group_.cluster().rank == 0 && !outbox_.leads()) outbox_.lead();
  }

  void report() {
    for (int left = kRecordsOfStep - 1; left >= 0; --left)
      outbox_.add([this, record = life_.step * kRecordsOfStep - left](bool again) {
        World::the().begin_call();  // writes it, or is killed before
        const std::string what = record <= acknowledged_
                                     ? text("tells record ", record, ", which it knows to be told")
                                     : witness_.on_told(record, again);
        if (!what.empty()) complain(what);
        pass(Place::telling);
      });
  }

  [[nodiscard]] Votes wishes() {
    bool is_told = false;
    for (const Farewell& each : plan_.farewells) {
      if (each.worker == life_.who.index && each.incarnation == life_.who.incarnation &&
          life_.step >= each.step)
        is_told = true;
    }
    const auto departure = group_.departure(is_told);
    Votes mine;
    mine.admit = group_.joiners_wait() ? 1 : 0;
    mine.quit = departure && departure->is_alone ? 1 : 0;
    mine.end = departure && !departure->is_alone ? 1 : 0;
    mine.told = outbox_.leads() ? 1 : 0;
    has_quit_ = mine.quit > 0;
    return mine;
  }

  [[noreturn]] void end_all(const Votes& votes) {
    (void)group_.agree([this] {
      group_.group().barrier(soon());
      return std::vector<std::byte>();
    });
    life_.has_saved = true;
    if (votes.quit == votes.voters) throw Stopped("all left.", "", SIGTERM);
    throw PeerLost("too few are left.", "");
  }

  [[noreturn]] void leave() {
    group_.leave();
    throw Stopped("it left.", "", SIGTERM);
  }

  [[nodiscard]] Deadline soon() const { return Deadline::in(plan_.options.collective_timeout); }

  void complain(const std::string& what) {
    if (life_.violation.empty()) life_.violation = what;
  }

  void pass(Place place) {
    const bool is_alone = joins_ && !life_.holds && place != Place::sharing;
    const std::string what = is_alone ? "" : witness_.objection(life_, group_.cluster());
    if (!what.empty()) complain(what);
    witness_.on_place(life_, place);
  }

  void begin_round() {
    buffer_.reset();
    const std::string what = witness_.objection(life_, group_.cluster());
    if (!what.empty()) complain(what);
  }

  void leave(Readiness& mine) {
    mine.step = life_.step;
    witness_.on_place(life_, Place::leaving);
  }

  [[nodiscard]] double own_sum() const {
    return sum_of(life_.step,
                  TreeCut(kLeaves, group_.cluster().world_size()).node(group_.cluster().rank));
  }

  double sum_large() {
    std::vector<double> own;
    double* values = nullptr;
    if (plan_.is_in_buffer) {
      if (!buffer_) buffer_ = group_.group().make_buffer(plan_.count * sizeof(double), soon());
      values = reinterpret_cast<double*>(buffer_.get());
    } else {
      own.resize(plan_.count);
      values = own.data();
    }
    std::fill(values, values + plan_.count, own_sum());
    group_.group().all_reduce(Span<double>(values, plan_.count), soon());
    const double wanted = sum_of(life_.step, {0, kLeaves});
    if (std::any_of(values, values + plan_.count, [wanted](double v) { return v != wanted; }))
      complain(text("its first sum of step ", life_.step, " is wrong"));
    return values[0];
  }

  void compute() const {
    if (plan_.step_pause == 0) return;
    Random random(plan_.seed + static_cast<std::uint64_t>(life_.number * 31 + life_.step));
    troupe::testing::take_time(std::chrono::nanoseconds(random.between(0, plan_.step_pause)));
  }

  void take_step() {
    for (;;) {
      try {
        pass(Place::before);
        compute();
        const double large = sum_large();
        pass(Place::between);
        double small = 2 * own_sum();
        const Span<double> outcome(&small, 1);
        group_.conclude(as_writable_bytes(outcome),
                        [&] { group_.group().all_reduce(outcome, soon()); });
        pass(Place::concluded);
        group_.commit(as_bytes(Span<const double>(&small, 1)));
        state_ = apply(state_, large, small);
        if (state_ != state_after(++life_.step))
          complain(text("a step was lost or counted twice: it is after step ", life_.step));
        return;
      } catch (const RepeatTransaction&) {
      } catch (const NetError& error) {
        group_.heal(error);
      }
    }
  }

  /// Who is there, and whether somebody waits.
  Votes vote() {
    const Votes mine = wishes();
    const CollectiveLabel label(text("the vote after step ", life_.step));
    const auto outcome = group_.agree([this, &mine] {
      const auto all =
          group_.group().all_gather(as_bytes(Span<const int>(&life_.number, 1)), soon());
      std::vector<int> numbers(all.size());
      for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (all[rank].size() == sizeof(int))
          std::memcpy(&numbers[rank], all[rank].data(), sizeof(int));
      if (numbers != witness_.members_of(group_.cluster().generation))
        complain("the round's workers are others than those to which it was issued");
      double sums[] = {mine.admit, mine.quit, mine.voters, mine.end, mine.told};
      group_.group().all_reduce(Span<double>(sums, 5), soon());
      const auto bytes = as_bytes(Span<const double>(sums, 5));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
    pass(Place::voted);
    Votes all;
    std::memcpy(&all, outcome.data(), sizeof all);
    if (all.quit == all.voters) all.end = 1;
    return all;
  }

  void share() {
    std::uint64_t state[2] = {static_cast<std::uint64_t>(life_.step), state_};
    group_.group().broadcast(as_writable_bytes(Span<std::uint64_t>(state, 2)), 0, soon());
    pass(Place::sharing);
    if (life_.holds && state[1] != state_) complain("it is given another state than its own");
    life_.step = static_cast<int>(state[0]);
    state_ = state[1];
    if (state_ != state_after(life_.step)) complain("it is given a wrong state");
    life_.holds = true;  // also where the others are lost before they know that
  }

  const ElasticPlan& plan_;
  Life& life_;
  const Witness& witness_;
  const bool joins_;
  bool has_quit_ = false;  // by its last vote
  Outbox outbox_;
  int acknowledged_ = 0;  // the last record that a leader had told, as this worker knows
  std::uint64_t state_ = 0;
  std::shared_ptr<std::byte> buffer_;
  ElasticGroup group_;
};

}  // namespace

void train(const ElasticPlan& plan, Life& life, const Cluster& cluster, int line,
           const Witness& witness) {
  try {
    Training(plan, life, cluster, line, witness).run();
  } catch (const NothingLeft&) {
    life.found_nothing = true;
  } catch (const Error& error) {
    life.kind = error.kind();
    life.cause = error.cause();
    life.exit_code = error.exit_code();
  } catch (const std::exception& error) {
    life.kind = "unexpected";
    life.cause = error.what();
    life.exit_code = kExitFailed;
  }
  World::the().note(text(life.process->name,
                         life.is_done         ? " is done"
                         : life.found_nothing ? " finds nothing left"
                                              : " ends with ",
                         life.kind, " ", life.cause));
}

}  // namespace troupe::simulation
