#include "troupe/distributed/elastic/rendezvous.h"

#include "tests/support/test_prelude.h"
#include "tests/unit/distributed/rendezvous_group.h"

namespace {

using namespace std::chrono_literals;
using troupe::LeaveRequest;
using troupe::Pong;
using troupe::Readiness;
using troupe::Started;
using troupe::StepLosses;
using troupe::testing::RendezvousGroup;
using Said = std::vector<std::string>;

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("rendezvous: those that are left form the next round, in their former order") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train().lose(0);
    CHECK(group.said() == Said{"ping worker/1", "ping worker/2", "ping worker/3"});
    group.wait(100ms);
    group.leave(3, 1, 7, "worker/0");
    group.leave(1, 1, 7, "worker/0");
    CHECK(group.said() == Said{});  // worker/2 is still in the old one
    group.wait(100ms);
    group.leave(2, 1, 7, "worker/0");
    CHECK(group.said() == Said{"round 2 to worker/1: worker/1* worker/2* worker/3*",
                               "round 2 to worker/2: worker/1* worker/2* worker/3*",
                               "round 2 to worker/3: worker/1* worker/2* worker/3*"});
    CHECK(group.begin().workers == 3);
    CHECK(group.begin().joined == 0);
    CHECK(group.begin().step == 7);
    CHECK(group.begin().stood_still == 200ms);
    // A later loss, of the new round's last rank.
    group.lose(3);
    group.leave(2, 2, 9, "worker/3");
    group.leave(1, 2, 9, "worker/3");
    CHECK(group.said() == Said{"ping worker/1", "ping worker/2",
                               "round 3 to worker/1: worker/1* worker/2*",
                               "round 3 to worker/2: worker/1* worker/2*"});
  }

  TEST_CASE("rendezvous: the chief is the first that can lead") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train().lose(0);
    group.leave_blind(1, 1, 7);
    group.leave(2, 1, 7, "worker/0");
    group.leave(3, 1, 7, "worker/0");
    CHECK(group.said().back() == "round 2 to worker/1: worker/2* worker/3* worker/1*");
    group.lose(2);
    group.lose(3);
    SUBCASE("where none is left that can, the group ends, and may start again") {
      group.leave_blind(1, 2, 9);
      CHECK(group.said().back() == "verdict: no chief");
      CHECK(group.last() == "no worker is left that sees the model directory of the run");
    }
    SUBCASE("it may have come to see it") {
      group.leave(1, 2, 9, "worker/2");
      CHECK(group.said().back() == "round 3 to worker/1: worker/1*");
    }
  }

  TEST_CASE("rendezvous: a loss that is told late has stopped training when it happened") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train().wait(10s);
    group.rendezvous().ended(group.worker(1), std::nullopt, group.now(), group.now() - 5s);
    group.leave(0, 1, 7, "worker/1");
    CHECK(group.begin().stood_still == 5s);
  }

  TEST_CASE("rendezvous: where workers of round 1 listen may be told later") {
    StepLosses losses;
    troupe::Round first{1, 5, 0, {{"worker/0", {}, false}, {"worker/1", {}, false}}};
    troupe::Rendezvous rendezvous({}, first, losses, [](std::uint64_t old) { return old + 1; });
    CHECK(rendezvous.starts(1, {"10.0.0.2", 7}).incarnation == 0);
    rendezvous.take({1, 0}, Started{}, {});
    rendezvous.ended({0, 0}, std::nullopt, {});
    rendezvous.take({1, 0}, Readiness{1, true, false, 1, "", "", ""}, {});
    const auto orders = rendezvous.take_orders();
    const auto& letter = std::get<troupe::RoundLetter>(orders[orders.size() - 2]);
    CHECK(std::get<troupe::Round>(letter.message).members[0].address.port == 7);
  }

  TEST_CASE("rendezvous: every round has a generation of its own") {
    StepLosses losses;
    troupe::Round first{1, 500, 0, {{"worker/0", {"h", 1}, false}, {"worker/1", {"h", 2}, false}}};
    troupe::Rendezvous rendezvous({}, first, losses, [](std::uint64_t old) { return old + 11; });
    for (std::uint64_t round = 1; round < 3; ++round) {
      for (const int index : {0, 1})
        rendezvous.take({index, 0}, Readiness{round, true, false, 1, "", "", ""}, {});
      const auto orders = rendezvous.take_orders();
      const auto& letter = std::get<troupe::RoundLetter>(orders[orders.size() - 2]);
      CHECK(std::get<troupe::Round>(letter.message).number == round + 1);
      CHECK(std::get<troupe::Round>(letter.message).generation == 500 + 11 * round);
    }
  }

  TEST_CASE("rendezvous: two lost at once, and one more while the others leave") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train().lose(2);
    group.lose(1);
    group.leave(3, 1, 7, "worker/2");
    (void)group.said();
    group.lose(3);  // it had left already
    CHECK(group.said() == Said{});
    group.leave(0, 1, 7, "worker/1");
    CHECK(group.said() == Said{"round 2 to worker/0: worker/0*"});
  }

  TEST_CASE("rendezvous: a loss while the next round is being formed makes another") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().lose(0);
    group.leave(1, 1, 7, "worker/0");
    group.leave(2, 1, 7, "worker/0");
    (void)group.said();
    group.lose(1);  // of round 2, which its workers have yet to connect
    group.leave(2, 2, 7, "worker/1");
    CHECK(group.said() == Said{"ping worker/2", "round 3 to worker/2: worker/2*"});
  }

  TEST_CASE("rendezvous: whom others call lost has half a second to answer, and is expelled") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().leave(0, 1, 7, "worker/2");
    CHECK(group.said() == Said{"ping worker/1", "ping worker/2"});
    group.say(1, Pong{});
    group.leave(1, 1, 7, "worker/2");
    group.wait(499ms);
    CHECK(group.said() == Said{});
    group.wait(1ms);
    CHECK(group.said() == Said{"expel worker/2"});
    CHECK(group.last() == "worker/2 gave no sign of life for 0.5 s");
    group.say(2, Pong{});  // too late
    group.wait(60s);
    CHECK(group.said() == Said{});  // nobody begins without its end
    group.lose(2);
    CHECK(group.said() == Said{"round 2 to worker/0: worker/0* worker/1*",
                               "round 2 to worker/1: worker/0* worker/1*"});
  }

  TEST_CASE("rendezvous: a silent one that nobody accuses has the heartbeat limit") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().leave(0, 1, 7, "worker/2");
    group.lose(2);
    group.wait(4'999ms);
    CHECK(group.said() == Said{"ping worker/1", "ping worker/2"});
    group.wait(1ms);
    CHECK(group.said() == Said{"expel worker/1"});
    group.lose(1);
    CHECK(group.said() == Said{"round 2 to worker/0: worker/0*"});
  }

  TEST_CASE("rendezvous: an accusation reaches one that has answered before") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().leave(0, 1, 7);
    group.say(1, Pong{});
    group.say(2, Pong{});
    (void)group.said();
    group.leave(1, 1, 7, "worker/2");
    CHECK(group.said() == Said{"ping worker/2"});
    group.wait(500ms);
    CHECK(group.said() == Said{"expel worker/2"});
  }

  TEST_CASE("rendezvous: one that answers computes, and is waited for, but not for ever") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train().leave(0, 1, 7, "worker/1");
    for (int second = 0; second < 299; ++second) {
      group.say(1, Pong{});
      group.wait(1s);
      CHECK(group.said().size() == (second == 0 ? 2U : 1U));  // a ping a second
    }
    SUBCASE("it leaves, too") {
      group.leave(1, 1, 7);
      CHECK(group.said() == Said{"round 2 to worker/0: worker/0* worker/1*",
                                 "round 2 to worker/1: worker/0* worker/1*"});
    }
    SUBCASE("it never does") {
      group.say(1, Pong{});
      group.wait(1s);
      CHECK(group.said() == Said{"expel worker/1"});
      CHECK(group.last() == "worker/1 did not leave round 1, which others have left, within 300 s");
    }
  }

  TEST_CASE("rendezvous: a group whose others are gone is asked, too") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train().lose(0);
    group.wait(5s);
    CHECK(group.said() == Said{"ping worker/1", "expel worker/1", "verdict: state lost"});
  }

  TEST_CASE("rendezvous: who joins waits until it is admitted, and the others know how many wait") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().lose(2);
    group.leave(0, 1, 7, "worker/2");
    group.leave(1, 1, 7, "worker/2");
    (void)group.said();
    group.restart(2);
    CHECK(group.said() == Said{});  // it builds its model
    group.say(2, Readiness{});
    CHECK(group.said() == Said{"waiting 1 to worker/0", "waiting 1 to worker/1"});
    group.admit(1, 2, 9);
    group.admit(0, 2, 9);
    CHECK(group.said() == Said{"ping worker/0", "waiting 0 to worker/0", "waiting 0 to worker/1",
                               "round 3 to worker/0: worker/0* worker/1* worker/2",
                               "round 3 to worker/1: worker/0* worker/1* worker/2",
                               "round 3 to worker/2: worker/0* worker/1* worker/2"});
    CHECK(group.begin().joined == 1);
    CHECK_FALSE(losses.is_over());
  }

  TEST_CASE("rendezvous: after a loss nobody joins, unless one that has left admits it") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train().lose(3);
    for (const int index : {0, 1, 2}) group.leave(index, 1, 7, "worker/3");
    group.knock(3);
    group.lose(2);
    group.leave(0, 2, 8, "worker/2");
    (void)group.said();
    SUBCASE("all repeat the step") {
      group.leave(1, 2, 8, "worker/2");
      CHECK(group.said() == Said{"round 3 to worker/0: worker/0* worker/1*",
                                 "round 3 to worker/1: worker/0* worker/1*"});
      group.lose(3);
      CHECK(group.said() == Said{"waiting 0 to worker/0", "waiting 0 to worker/1"});
    }
    SUBCASE("the loss came while one admitted") {
      group.admit(1, 2, 8);
      CHECK(group.said().back() == "round 3 to worker/3: worker/0* worker/1* worker/3");
    }
  }

  TEST_CASE("rendezvous: one that was lost before it got the state waits again, and so do others") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train().lose(2);
    group.lose(3);
    for (const int index : {0, 1}) group.leave(index, 1, 7, "worker/2");
    group.knock(2);
    group.knock(3);
    for (const int index : {0, 1}) group.admit(index, 2, 8);
    (void)group.said();
    group.lose(3);
    group.leave(0, 3, 8, "worker/3");
    group.leave_empty(2, 3);
    group.leave(1, 3, 8, "worker/3");
    CHECK(group.said() == Said{"ping worker/0", "ping worker/1", "ping worker/2",
                               "waiting 1 to worker/1", "waiting 1 to worker/0",
                               "round 4 to worker/0: worker/0* worker/1*",
                               "round 4 to worker/1: worker/0* worker/1*"});
    SUBCASE("it is admitted again") {
      for (const int index : {0, 1}) group.admit(index, 4, 9);
      CHECK(group.said().back() == "round 5 to worker/2: worker/0* worker/1* worker/2");
    }
    SUBCASE("its loss is none of the round") {
      group.lose(2);
      CHECK(group.said() == Said{"waiting 0 to worker/0", "waiting 0 to worker/1"});
    }
  }

  TEST_CASE("rendezvous: too few wait until others wait, too, whom they let in at the next edge") {
    StepLosses losses;
    RendezvousGroup group(3, 2, losses);
    group.train().lose(1);
    group.lose(2);
    group.leave(0, 1, 7, "worker/1");
    (void)group.said();
    group.wait(59'999ms);
    CHECK(group.said() == Said{});
    SUBCASE("one comes") {
      group.knock(2);
      CHECK(group.said() == Said{"waiting 1 to worker/0", "round 2 to worker/0: worker/0*"});
      group.admit(0, 2, 7);
      CHECK(group.said().back() == "round 3 to worker/2: worker/0* worker/2");
    }
    SUBCASE("none comes") {
      group.restart(2);
      group.wait(1ms);
      // A round of its own, in which it saves.
      CHECK(group.said() == Said{"leave with all to worker/0", "verdict: too few",
                                 "dismiss worker/2", "round 2 to worker/0: worker/0*"});
      group.lose(2);
      group.lose(0);                  // with 138
      CHECK(group.said() == Said{});  // one verdict is enough
      CHECK_FALSE(group.rendezvous().wakes_at());
    }
    SUBCASE("the group is to stop: it needs no others for that") {
      group.stop();
      CHECK(group.said() == Said{"round 2 to worker/0: worker/0*"});
    }
  }

  TEST_CASE("rendezvous: too few that save do so in further rounds, if one of them is lost") {
    StepLosses losses;
    RendezvousGroup group(3, 3, losses);
    group.train().lose(2);
    group.leave(0, 1, 7, "worker/2");
    group.leave(1, 1, 7, "worker/2");
    group.wait(60s);
    (void)group.said();
    group.lose(1);
    group.leave(0, 2, 7, "worker/1");
    CHECK(group.said() == Said{"ping worker/0", "round 3 to worker/0: worker/0*"});
  }

  TEST_CASE("rendezvous: one that is told to end leaves, and the others begin without it") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().say(1, LeaveRequest{});
    CHECK(group.said() == Said{"leave alone to worker/1"});
    group.quit(1, 1, 7);
    group.admit(0, 1, 7);
    group.admit(2, 1, 7);
    (void)group.said();
    SUBCASE("when its process has ended") {
      group.finish(1, 143);  // which is the end of nobody else
      CHECK(group.said() == Said{"round 2 to worker/0: worker/0* worker/2*",
                                 "round 2 to worker/2: worker/0* worker/2*"});
      CHECK(losses.summary() == "step 0 was lost 0 times in a row: ");
    }
    SUBCASE("which has 5 s for that") {
      group.wait(4'999ms);
      CHECK(group.said() == Said{});
      group.wait(1ms);
      CHECK(group.said() == Said{"expel worker/1"});
      CHECK(group.last() == "worker/1 left, and did not end within 5 s");
      group.wait(60s);
      CHECK(group.said() == Said{});
      group.lose(1);
      CHECK(group.said().size() == 2);
    }
  }

  TEST_CASE("rendezvous: of a machine all leave at once, and that is no loss") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train();
    for (const int leaver : {2, 3}) group.say(leaver, LeaveRequest{});
    CHECK(group.said() == Said{"leave alone to worker/2", "leave alone to worker/3"});
    for (const int leaver : {2, 3}) group.quit(leaver, 1, 7);
    for (const int other : {0, 1}) group.admit(other, 1, 7);
    (void)group.said();
    group.finish(3, 143);
    CHECK(group.said().empty());  // the other process still lives
    group.finish(2, 143);
    CHECK(group.said() == Said{"round 2 to worker/0: worker/0* worker/1*",
                               "round 2 to worker/1: worker/0* worker/1*"});
    CHECK(losses.summary() == "step 0 was lost 0 times in a row: ");
  }

  TEST_CASE("rendezvous: whoever takes a worker that left for lost has not failed at the step") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train().quit(1, 1, 7);
    group.leave(0, 1, 7, "worker/1");
    group.finish(1, 143);
    CHECK(group.said().back() == "round 2 to worker/0: worker/0*");
    CHECK(losses.summary() == "step 0 was lost 0 times in a row: ");
  }

  TEST_CASE("rendezvous: where the launcher was told to end, so is everybody") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train().stop();
    group.say(1, LeaveRequest{});
    CHECK(group.said() == Said{"leave with all to worker/1"});
  }

  TEST_CASE("rendezvous: with the last that holds the state the group is lost") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.train().lose(1);
    group.knock(1);
    (void)group.said();
    group.lose(0);
    CHECK(group.said() == Said{"dismiss worker/1", "verdict: state lost"});
  }

  TEST_CASE("rendezvous: one of a round may hold the state before it said so") {
    StepLosses losses;
    RendezvousGroup group(2, 1, losses);
    group.say(0, Started{});
    CHECK(group.rendezvous().has_started());
    group.lose(0);
    (void)group.said();
    SUBCASE("it does") {
      group.leave(1, 1, 1, "worker/0");
      CHECK(group.said() == Said{"round 2 to worker/1: worker/1*"});
    }
    SUBCASE("it does not") {
      group.leave_empty(1, 1);
      CHECK(group.said() == Said{"dismiss worker/1", "verdict: state lost"});
    }
  }

  TEST_CASE("rendezvous: once one has ended, nobody trains, and those that wait end as it did") {
    StepLosses losses;
    RendezvousGroup group(4, 1, losses);
    group.train().lose(3);
    for (const int index : {0, 1, 2}) group.leave(index, 1, 7, "worker/3");
    group.lose(2);
    for (const int index : {0, 1}) group.leave(index, 2, 8, "worker/2");
    group.knock(3);
    group.restart(2);
    (void)group.said();
    SUBCASE("well") {
      group.finish(0);
      CHECK(group.said() == Said{"dismiss worker/2", "end 0 to worker/3"});
      group.leave(1, 3, 9, "worker/0");  // it missed worker/0 in the goodbye
      CHECK(group.said() == Said{"end 0 to worker/1"});
      group.lose(1);  // no failure: the work is saved
      group.finish(3);
      CHECK(group.said() == Said{});
    }
    SUBCASE("as it was told by a signal") {
      group.finish(0, 143);
      CHECK(group.said() == Said{"dismiss worker/2", "end 143 to worker/3"});
    }
  }

  TEST_CASE("rendezvous: a group that is to stop goes on without those that join") {
    StepLosses losses;
    RendezvousGroup group(4, 2, losses);
    group.train().lose(3);
    for (const int index : {0, 1, 2}) group.leave(index, 1, 7, "worker/3");
    group.knock(3);
    (void)group.said();
    group.stop();
    CHECK(group.said() == Said{"dismiss worker/3", "waiting 0 to worker/0", "waiting 0 to worker/1",
                               "waiting 0 to worker/2"});
    group.lose(3);
    group.lose(2);
    group.lose(1);
    group.leave(0, 2, 8, "worker/2");
    CHECK(group.said().back() == "round 3 to worker/0: worker/0*");  // it saves alone
  }

  TEST_CASE("rendezvous: one that has no state yet is of no use to a group that is to stop") {
    StepLosses losses;
    RendezvousGroup group(3, 2, losses);
    group.train().lose(2);
    for (const int index : {0, 1}) group.leave(index, 1, 7, "worker/2");
    group.knock(2);
    for (const int index : {0, 1}) group.admit(index, 2, 8);
    group.stop();
    group.lose(1);
    group.admit(0, 3, 8);
    (void)group.said();
    group.leave_empty(2, 3);
    CHECK(group.said() == Said{"dismiss worker/2", "round 4 to worker/0: worker/0*"});
  }

  TEST_CASE(
      "rendezvous: what cannot be meant expels who says it, and former processes are not heard") {
    StepLosses losses;
    RendezvousGroup group(3, 1, losses);
    group.train().leave(2, 5, 7);
    CHECK(group.said() == Said{"expel worker/2"});
    CHECK(group.last() == "worker/2 leaves round 5, which it is not in");
    group.leave(2, 1, 7, "worker/1");
    CHECK(group.said() == Said{});  // it accuses nobody any longer
    const troupe::RoundWorker former = group.worker(2);
    group.lose(2);
    for (const int index : {0, 1}) group.leave(index, 1, 7, "worker/2");
    (void)group.said();
    group.restart(2);
    group.rendezvous().take(former, Readiness{}, group.now());
    group.rendezvous().ended(former, std::nullopt, group.now());
    group.wait(0ms);
    CHECK(group.said() == Said{});
    group.say(2, Started{});
    CHECK(group.said() == Said{"expel worker/2"});
    group.rendezvous().take({7, 0}, Started{}, group.now());
    group.rendezvous().refuse({-1, 0}, "", group.now());
  }
}
