#include "troupe/strategies/parameter_server/wire/pace_keeper.h"

#include "tests/support/test_prelude.h"

namespace pace_keeper_test {

namespace {
using namespace troupe;  // NOLINT: a test

struct Keeping {
  Keeping(const ServerOptions& pace, int workers, ServerRole role = ServerRole::clock)
      : clocks(workers), rounds(clocks), keeper(pace, role, clocks) {
    for (int rank = 0; rank < workers; ++rank) clocks.enter(rank, 0);
  }
  // The steps that are granted now to those who ask, by rank; 0: training is over.
  std::map<int, std::int64_t> granted() {
    std::map<int, std::int64_t> numbers;
    for (const auto& [rank, answer] : keeper.answers()) numbers[rank] = answer.step.value_or(0);
    return numbers;
  }
  void ask(int rank, std::int64_t clock) { REQUIRE(keeper.ask(rank, clock)); }
  void end(int rank) { REQUIRE(keeper.end(rank, clocks.clock(rank) + 1)); }

  WorkerClocks clocks;
  RoundKeeper rounds;
  PaceKeeper keeper;
};
using Granted = std::map<int, std::int64_t>;

ServerOptions bounded(std::int64_t bound) {
  ServerOptions pace;
  pace.staleness_bound = bound;
  return pace;
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("pace_keeper: nothing is granted before training begins") {
    Keeping k(ServerOptions{}, 1);
    k.ask(0, 0);
    CHECK(k.granted().empty());
    k.keeper.launch({100, 110});
    CHECK(k.granted() == Granted{{0, 101}});
  }

  TEST_CASE("pace_keeper: training is over when all steps have ended, not when all are granted") {
    Keeping k(ServerOptions{}, 2);
    k.keeper.launch({0, 2});
    k.ask(0, 0);
    k.ask(1, 0);
    CHECK(k.granted() == Granted{{0, 1}, {1, 2}});
    k.end(0);
    k.ask(0, 1);
    CHECK(k.granted().empty());
    SUBCASE("the other ends its step") {
      k.end(1);
      CHECK(k.granted() == Granted{{0, 0}});
    }
    SUBCASE("the other is lost: its step goes to who waits") {
      k.keeper.lose(1);
      CHECK(k.granted() == Granted{{0, 2}});
      CHECK(k.keeper.step() == 1);
      k.end(0);
      CHECK(k.keeper.step() == 2);
    }
  }

  TEST_CASE("pace_keeper: a request that is not the next one does not fit") {
    Keeping k({}, 1);
    k.keeper.launch({0, 9});
    CHECK_FALSE(k.keeper.ask(0, 1));
    k.ask(0, 0);
    CHECK_FALSE(k.keeper.ask(0, 0));  // one is waiting
    CHECK(k.granted().size() == 1);
    CHECK_FALSE(k.keeper.ask(0, 0));  // it has been granted
    CHECK_FALSE(k.keeper.ask(0, 1));
    CHECK_FALSE(k.keeper.end(0, 2));
    CHECK(k.keeper.end(0, 1));
    CHECK_FALSE(k.keeper.end(0, 2));  // never granted
  }

  TEST_CASE("pace_keeper: a worker is held back by the slowest, and by nobody who is lost") {
    Keeping k(bounded(2), 2);
    k.keeper.launch({0, 99});
    for (std::int64_t clock = 0; clock < 2; ++clock) {
      k.ask(0, clock);
      CHECK(k.granted().size() == 1);
      k.end(0);
    }
    k.ask(0, 2);
    CHECK(k.granted().size() == 1);
    k.end(0);
    k.ask(0, 3);
    CHECK(k.granted().empty());
    CHECK(k.keeper.waits_for(0) == std::vector<int>{1});
    SUBCASE("the slowest goes on") {
      k.ask(1, 0);
      CHECK(k.granted().count(1) == 1);
      k.end(1);
    }
    SUBCASE("the slowest is lost") { k.keeper.lose(1); }
    CHECK(k.granted().count(0) == 1);
  }

  TEST_CASE("pace_keeper: of several who come at once nobody begins before the first step") {
    Keeping k(bounded(1), 4);
    k.keeper.launch({0, 99});
    for (const int rank : {1, 2, 3}) {
      k.keeper.lose(rank);
      CHECK(k.keeper.assign(rank) == 0);
    }
    for (const int rank : {1, 2, 3}) k.clocks.enter(rank, 0);
    for (const int rank : {0, 1, 2, 3}) k.ask(rank, 0);
    CHECK(k.granted().size() == 4);
  }

  TEST_CASE("pace_keeper: both histograms count what was read and what was missed") {
    Keeping k(bounded(2), 2);
    k.keeper.launch({0, 99});
    k.ask(0, 0);
    k.ask(1, 0);
    CHECK(k.granted().size() == 2);
    k.end(0);  // read nothing ahead, missed nothing
    k.end(1);  // missed one
    const auto& counted = k.keeper.statistics();
    CHECK(counted.staleness == std::map<std::int64_t, std::int64_t>{{0, 2}});
    CHECK(counted.missed == std::map<std::int64_t, std::int64_t>{{0, 1}, {1, 1}});
    k.ask(0, 1);
    k.granted();
    k.end(0);
    k.ask(0, 2);  // the other is at 1
    k.granted();
    k.end(0);
    CHECK(counted.staleness == std::map<std::int64_t, std::int64_t>{{0, 3}, {1, 1}});
  }

  TEST_CASE("pace_keeper: every server counts the steps that a gradient has missed") {
    for (const ServerRole role : {ServerRole::clock, ServerRole::follower}) {
      Keeping k(ServerOptions{}, 3, role);
      k.keeper.launch({0, 99});
      for (const int rank : {0, 1, 2}) k.ask(rank, 0);
      CHECK(k.granted().size() == 3);
      CHECK(k.keeper.missed(2) == 0);
      k.end(0);
      k.end(1);
      CHECK(k.keeper.missed(2) == 2);
      k.ask(0, 1);
      CHECK(k.granted().size() == 1);
      CHECK(k.keeper.missed(0) == 0);
      k.end(2);
      CHECK(k.keeper.missed(0) == 1);
    }
  }

  TEST_CASE("pace_keeper: a step that another server has granted is taken after the end, too") {
    for (const bool synchronous : {false, true}) {
      CAPTURE(synchronous);
      Keeping k(synchronous ? bounded(0) : ServerOptions{}, 2, ServerRole::follower);
      k.keeper.launch({0, 99});
      k.keeper.finish("early");
      k.ask(1, 0);
      CHECK(k.keeper.answers().at(1).ended == "early");
      k.end(1);
      CHECK_FALSE(k.keeper.end(1, 3));  // not the next one
    }
  }

  TEST_CASE("pace_keeper: a collection waits for steps that were begun, not for the chief's next") {
    Keeping k({}, 3);
    k.keeper.launch({0, 99});
    k.ask(1, 0);
    CHECK(k.granted().size() == 1);
    const TargetClocks targets = k.keeper.hold();
    CHECK(targets == TargetClocks{{0, 0}, {1, 1}, {2, 0}});
    k.ask(2, 0);
    CHECK(k.granted().empty());
    CHECK_FALSE(k.keeper.assign(2));
    CHECK_FALSE(k.clocks.reached(targets));
    SUBCASE("it ends them") { k.end(1); }
    SUBCASE("it is lost") { k.keeper.lose(1); }
    CHECK(k.clocks.reached(targets));
    k.keeper.release();
    CHECK(k.granted().count(2) == 1);
  }

  // The chief collects once all steps have ended, at server 0: another server may not have read the
  // last one of a worker that has left since.
  TEST_CASE("pace_keeper: a collection waits for the steps of who has left, not of who is lost") {
    for (const bool synchronous : {false, true}) {
      CAPTURE(synchronous);
      Keeping k(synchronous ? bounded(0) : ServerOptions{}, 3);
      Keeping slow(synchronous ? bounded(0) : ServerOptions{}, 3, ServerRole::follower);
      for (Keeping* server : {&k, &slow}) {
        server->keeper.launch({0, 3});
        for (const int rank : {0, 1, 2}) server->ask(rank, 0);
        CHECK(server->granted().size() == 3);
        server->end(0);
      }
      k.end(1);
      k.end(2);
      k.keeper.leave(1);
      k.keeper.lose(2);
      const TargetClocks targets = k.keeper.hold();
      CHECK(targets == TargetClocks{{0, 1}, {1, 1}});
      CHECK_FALSE(slow.clocks.reached(targets));
      slow.end(1);
      CHECK(slow.clocks.reached(targets));
      slow.keeper.leave(1);
      CHECK(slow.clocks.reached(targets));
    }
  }

  TEST_CASE("pace_keeper: nobody waits for one that has left") {
    Keeping k(bounded(1), 2);
    k.keeper.launch({0, 9});
    k.ask(0, 0);
    CHECK(k.granted().size() == 1);
    k.end(0);
    k.keeper.leave(1);
    k.ask(0, 1);
    CHECK(k.granted().size() == 1);
    k.end(0);
    k.ask(0, 2);
    CHECK(k.granted().size() == 1);
    CHECK(k.keeper.waits_for(0).empty());
  }

  TEST_CASE("pace_keeper: who joins a synchronous job starts with a round nobody has begun") {
    Keeping k(bounded(0), 3);
    k.keeper.launch({0, 99});
    k.keeper.lose(2);
    k.ask(0, 0);
    CHECK(k.granted().size() == 1);  // round 0 runs
    CHECK(k.keeper.assign(2) == 1);
    k.ask(1, 0);
    CHECK(k.granted().size() == 1);
    k.end(0);
    k.end(1);
    CHECK(k.keeper.step() == 1);  // who has not come yet takes no round back
    k.ask(0, 1);
    CHECK(k.granted().empty());  // until all servers know the newcomer
    SUBCASE("it comes") { k.clocks.enter(2, 1); }
    SUBCASE("it is lost again") { k.keeper.lose(2); }
    CHECK(k.granted() == Granted{{0, 2}});
  }

  TEST_CASE("pace_keeper: the reason given first is the one that all learn") {
    Keeping k(ServerOptions{}, 1);
    k.keeper.launch({0, 9});
    k.keeper.finish("early");
    k.keeper.finish("late");
    k.ask(0, 0);
    const auto answers = k.keeper.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers.at(0).ended == "early");
  }

  TEST_CASE("round_keeper: an update is made of all who take part, without those who are lost") {
    Keeping k(bounded(0), 3);
    k.rounds.offer(2, {});
    CHECK(k.rounds.missing() == std::vector<int>{0, 1});
    k.rounds.offer(0, {});
    CHECK(k.rounds.next().empty());
    SUBCASE("the third pushes") {
      k.rounds.offer(1, {});
      CHECK(k.rounds.next().size() == 3);
    }
    SUBCASE("the third is lost") {
      k.keeper.lose(1);
      const auto update = k.rounds.next();
      CHECK((update.size() == 2 && update.count(0) == 1 && update.count(2) == 1));
    }
    CHECK(k.rounds.next().empty());
  }

  TEST_CASE("round_keeper: a worker that ended the step is named when others still push") {
    Keeping k(bounded(0), 2);
    k.clocks.advance(1, 1);
    k.rounds.offer(0, {});
    const auto conflict = k.rounds.conflict();
    REQUIRE(conflict);
    CHECK(conflict->rank == 0);
    CHECK(conflict->other == 1);
  }
}

}  // namespace pace_keeper_test
