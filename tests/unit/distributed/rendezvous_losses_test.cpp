// What a step may cost before it ends an elastic run.
#include "tests/support/test_prelude.h"
#include "tests/unit/distributed/rendezvous_group.h"
#include "troupe/distributed/elastic/rendezvous.h"

namespace {

using namespace std::chrono_literals;
using troupe::StepLosses;
using troupe::testing::RendezvousGroup;
using Said = std::vector<std::string>;

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE(
      "rendezvous: a step that is lost three times ends the run, and names what it computed") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train().lose(3);
    for (const int index : {0, 1, 2}) group.leave(index, 1, 120, "worker/3", "examples 17, 4");
    group.lose(1);
    for (const int index : {0, 2}) group.leave(index, 2, 120, "worker/1", "examples 17, 9");
    group.lose(2);
    (void)group.said();
    group.leave(0, 3, 120, "worker/2", "examples 17, 30");
    CHECK(group.said() == Said{"end 1 to worker/0", "verdict: no progress"});
    CHECK(group.last() ==
          "step 121 was lost 3 times in a row: worker/3 (examples 17, 4); worker/1 (examples 17, "
          "9); worker/2 (examples 17, 30)");
  }

  TEST_CASE("rendezvous: a loss at another step begins the count anew") {
    StepLosses losses;
    RendezvousGroup group(6, 1, losses);
    std::uint64_t round = 1;
    group.train();
    for (const auto& [lost, step] : {std::pair(5, 120), {4, 120}, {3, 121}, {2, 121}, {1, 122}}) {
      group.lose(lost);
      for (int index = 0; index < lost; ++index)
        group.leave(index, round, step, "worker/" + std::to_string(lost));
      CHECK(group.said().back().rfind("round " + std::to_string(++round), 0) == 0);
    }
  }

  TEST_CASE("rendezvous: workers that are lost together have tried the step once") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train();
    for (const int index : {1, 2, 3}) group.lose(index);
    group.leave(0, 1, 120, "worker/3", "examples 17");
    CHECK(group.said().back() == "round 2 to worker/0: worker/0*");
  }

  TEST_CASE(
      "rendezvous: a loss of one that had no state yet, or a joining, is no try of the step") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train().lose(1);
    group.leave(0, 1, 120, "worker/1");
    for (std::uint64_t round = 2; round < 10; round += 2) {
      group.knock(1);
      group.admit(0, round, 120);
      group.lose(1);
      group.leave(0, round + 1, 120, "worker/1");
      CHECK(group.said().back() ==
            "round " + std::to_string(round + 2) + " to worker/0: worker/0*");
    }
  }

  TEST_CASE("rendezvous: links that break between living workers cost tries, too") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train();
    for (std::uint64_t round = 1; round <= 3; ++round) {
      group.leave(0, round, 120, "worker/1");
      group.leave(1, round, 120, "worker/0");
    }
    CHECK(group.said().back() == "verdict: no progress");
  }

  TEST_CASE("rendezvous: the count lives on when the whole group starts again") {
    StepLosses losses;
    {
      RendezvousGroup group(2, 1, losses);
      group.train().lose(1);
      group.leave(0, 1, 120, "worker/1", "examples 17");
      group.lose(0);  // the last one, as it repeats the step
      CHECK(group.said().back() == "verdict: state lost");
    }
    CHECK_FALSE(losses.is_over());
    SUBCASE("and the step kills once more") {
      RendezvousGroup again(2, 1, losses);
      again.train().lose(0);
      again.leave(1, 1, 120, "worker/0", "examples 17, 3");
      CHECK(again.said().back() == "verdict: no progress");
      CHECK(again.last() ==
            "step 121 was lost 3 times in a row: worker/1 (examples 17); worker/0; worker/0 "
            "(examples 17, 3)");
    }
    SUBCASE("all at once, which says nothing of the step") {
      RendezvousGroup again(2, 1, losses);
      again.train().lose(0);
      again.lose(1);
      CHECK(again.said().back() == "verdict: state lost");
    }
  }

  TEST_CASE("rendezvous: the third loss may be that of the last worker") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().lose(2);
    for (const int index : {0, 1}) group.leave(index, 1, 120, "worker/2");
    group.lose(1);
    group.leave(0, 2, 120, "worker/1");
    group.lose(0);
    CHECK(group.said().back() == "verdict: no progress");
  }

  TEST_CASE("rendezvous: one that is lost while it waits for others did not try the step again") {
    StepLosses losses;
    losses.add(120, {"worker/0"});
    RendezvousGroup group(2, 2, losses);
    group.train().lose(1);
    group.leave(0, 1, 120, "worker/1");
    group.lose(0);
    CHECK(group.said().back() == "verdict: state lost");
    CHECK_FALSE(losses.is_over());
  }
}
