#include "troupe/launcher/nodes/launch_round.h"

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/launcher/nodes/launch_node_messages.h"

namespace launch_round_test {

namespace {

using std::chrono::milliseconds;
using troupe::LaunchRound;
using troupe::PartEnd;
using troupe::RestartPolicy;

PartEnd part(int code, const char* cause) { return {code, true, true, 0, cause}; }
const PartEnd kWell{};

template <class Message>
std::optional<Message> read(const std::string& text) {
  return troupe::decode_message<Message>(
      troupe::as_bytes(troupe::Span<const char>(text.data(), text.size())));
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("restarts: lost workers are worth one, errors and requests to stop are not") {
    for (const int code : {137, 139, 134, 138, 200}) CHECK(troupe::is_worth_a_restart(code));
    for (const int code : {0, 1, 2, 3, 127, 129, 130, 143})
      CHECK_FALSE(troupe::is_worth_a_restart(code));
    RestartPolicy policy(3);
    CHECK_FALSE(policy.after({2, true}, milliseconds(0)));
    CHECK_FALSE(policy.after({137, false}, milliseconds(0)));        // the evaluator's
    CHECK_FALSE(policy.after({138, true, false}, milliseconds(0)));  // a node is gone
    CHECK(policy.used() == 0);
    CHECK(policy.after({137, true}, milliseconds(0)) == milliseconds(1'000));
    CHECK(policy.after({138, true}, milliseconds(0)) == milliseconds(2'000));
    CHECK(policy.after({137, true}, milliseconds(0)) == milliseconds(4'000));
    CHECK_FALSE(policy.after({137, true}, milliseconds(0)));
  }

  TEST_CASE("restarts: pauses double up to a minute, and begin anew after a start that lived") {
    RestartPolicy policy(100);
    milliseconds last{0};
    for (int i = 0; i < 8; ++i) last = *policy.after({137, true}, milliseconds(0));
    CHECK(last == milliseconds(60'000));
    CHECK(policy.after({137, true}, milliseconds(59'999)) == milliseconds(60'000));
    CHECK(policy.after({137, true}, milliseconds(60'000)) == milliseconds(1'000));
    CHECK(policy.after({137, true}, milliseconds(0)) == milliseconds(2'000));
  }

  TEST_CASE("nodes: the first reason stops the others, and is what counts") {
    LaunchRound round(3);
    CHECK(round.on_part(1, part(137, "killed"), /*has_ended=*/false));
    CHECK_FALSE(round.on_part(0, part(troupe::kExitPeerLost, "lost worker/2"), /*has_ended=*/true));
    CHECK_FALSE(round.on_part(2, part(5, "later"), /*has_ended=*/true));
    CHECK_FALSE(round.is_complete());
    CHECK_FALSE(round.on_part(1, part(137, "killed"), /*has_ended=*/true));
    CHECK(round.is_complete());
    CHECK(round.verdict().cause == "killed");
    CHECK(round.verdict().can_recover);
  }

  TEST_CASE("nodes: workers that only lost others do not hide why") {
    LaunchRound round(2);
    CHECK(round.on_part(0, part(troupe::kExitPeerLost, "lost worker/2"), /*has_ended=*/true));
    CHECK_FALSE(round.on_part(1, part(9, "its own"), /*has_ended=*/true));
    CHECK(round.verdict().exit_code == 9);
    LaunchRound cut(2);
    CHECK(cut.on_part(0, part(troupe::kExitPeerLost, "lost worker/2"), /*has_ended=*/true));
    CHECK_FALSE(cut.lost(1, "node/1", "no heartbeat"));
    CHECK(cut.verdict().cause == "node/1 is lost: no heartbeat");
    CHECK_FALSE(cut.verdict().can_recover);
    CHECK(cut.is_complete());
  }

  TEST_CASE("nodes: a node that is lost after it failed leaves no way back") {
    LaunchRound round(2);
    CHECK(round.on_part(1, part(137, "killed"), /*has_ended=*/false));
    CHECK_FALSE(round.lost(1, "node/1", "connection closed"));
    CHECK_FALSE(round.on_part(0, kWell, /*has_ended=*/true));
    CHECK(round.verdict().exit_code == 137);
    CHECK_FALSE(round.verdict().can_recover);
  }

  TEST_CASE("nodes: the verdict where all is well, of an interrupt, and of the evaluator") {
    LaunchRound round(2);
    CHECK_FALSE(round.on_part(1, {7, false, true, 0, ""}, /*has_ended=*/true));
    CHECK_FALSE(round.on_part(0, {4, false, true, 0, ""}, /*has_ended=*/true));
    CHECK(round.verdict().exit_code == 4);
    CHECK_FALSE(round.verdict().failed);
    LaunchRound interrupted(2);
    CHECK(interrupted.on_part(1, {143, false, true, 15, ""}, /*has_ended=*/false));
    CHECK(interrupted.verdict().signal == 15);
  }

  TEST_CASE("nodes: messages are read back, and nothing else is") {
    const auto hello = read<troupe::NodeHello>(encode(troupe::NodeHello{1, 2, 4, true}));
    REQUIRE(hello);
    CHECK((hello->node == 1 && hello->nodes == 2 && hello->workers == 4 && hello->is_elastic));
    const auto plan = read<troupe::NodePlan>(encode(troupe::NodePlan{7, 1, 4, 2, "10.0.0.1", 9}));
    REQUIRE(plan);
    CHECK((plan->generation == 7 && plan->first_rank == 2 && plan->chief_port == 9));
    troupe::NodeReport sent{true, part(137, "x\x1b[2J")};
    sent.part.can_recover = false;
    const auto report = read<troupe::NodeReport>(encode(sent));
    REQUIRE(report);
    CHECK((report->has_ended && report->part.failed && !report->part.can_recover));
    CHECK(report->part.cause == "x?[2J");  // nothing for the terminal
    const auto stop = read<troupe::NodeStop>(encode(troupe::NodeStop{2, milliseconds(5), "r"}));
    REQUIRE(stop);
    CHECK((stop->signal == 2 && stop->limit == milliseconds(5)));
    for (const char* wrong : {"", "{}", "3", "{\"node\":-1,\"nodes\":2,\"workers\":1}",
                              "{\"node\":1.5,\"nodes\":2,\"workers\":1}",
                              "{\"node\":1,\"nodes\":2,\"workers\":100000}"})
      CHECK_FALSE(read<troupe::NodeHello>(wrong));
    CHECK_FALSE(read<troupe::NodeStop>("{\"signal\":9,\"limit_ms\":1,\"reason\":\"\"}"));
    CHECK_FALSE(read<troupe::NodeStop>("{\"signal\":15,\"limit_ms\":3600001,\"reason\":\"\"}"));
  }
}

}  // namespace launch_round_test
