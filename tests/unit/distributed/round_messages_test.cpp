#include "troupe/distributed/elastic/round_messages.h"

#include "tests/support/message_text.h"
#include "tests/support/test_prelude.h"

namespace {

using troupe::testing::bytes_of;
using troupe::testing::replaced;

using troupe::EndOfRounds;
using troupe::Readiness;
using troupe::RendezvousMessage;
using troupe::Round;
using troupe::WorkerMessage;

std::optional<WorkerMessage> from_worker(const std::string& text) {
  return troupe::worker_message_from(bytes_of(text));
}
std::optional<RendezvousMessage> from_rendezvous(const std::string& text) {
  return troupe::rendezvous_message_from(bytes_of(text));
}
Readiness sample_ready() { return {3, true, false, 120, "worker/1", "gone.", "examples 17"}; }
Round sample_round() {
  return {4, 900, 1, {{"worker/0", {"127.0.0.1", 1000}, true}, {"worker/1", {"::1", 1001}, false}}};
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("round_messages: what a worker says survives the way") {
    const auto read = from_worker(to_json(WorkerMessage(sample_ready())));
    REQUIRE(read);
    const auto& ready = std::get<Readiness>(*read);
    CHECK(ready.round == 3);
    CHECK(ready.holds);
    CHECK_FALSE(ready.admits);
    CHECK(ready.step == 120);
    CHECK(ready.lost == "worker/1");
    CHECK(ready.cause == "gone.");
    CHECK(ready.work == "examples 17");
    CHECK(std::holds_alternative<troupe::Started>(
        *from_worker(to_json(WorkerMessage(troupe::Started{})))));
    Readiness leaving = sample_ready();
    leaving.leaves = true;
    const auto left = from_worker(to_json(WorkerMessage(leaving)));
    CHECK((left && std::get<Readiness>(*left).leaves));
    CHECK_FALSE(from_worker(replaced(to_json(WorkerMessage(leaving)), "\"holds\":true",
                                     "\"holds\":false")));  // it was never there
    CHECK(std::holds_alternative<troupe::LeaveRequest>(
        *from_worker(to_json(WorkerMessage(troupe::LeaveRequest{})))));
    CHECK(
        std::holds_alternative<troupe::Pong>(*from_worker(to_json(WorkerMessage(troupe::Pong{})))));
  }

  TEST_CASE("round_messages: what a rendezvous says survives the way") {
    const auto departure =
        from_rendezvous(to_json(RendezvousMessage(troupe::Departure{true, "why.", "do."})));
    REQUIRE(departure);
    CHECK(std::get<troupe::Departure>(*departure).is_alone);
    CHECK(std::get<troupe::Departure>(*departure).cause == "why.");
    const auto loss =
        from_rendezvous(to_json(RendezvousMessage(troupe::RoundLoss{4, "worker/1", "gone."})));
    REQUIRE(loss);
    CHECK(std::get<troupe::RoundLoss>(*loss).round == 4);
    CHECK(std::get<troupe::RoundLoss>(*loss).lost == "worker/1");
    CHECK(std::get<troupe::RoundLoss>(*loss).cause == "gone.");
    const auto read = from_rendezvous(to_json(RendezvousMessage(sample_round())));
    REQUIRE(read);
    const auto& round = std::get<Round>(*read);
    CHECK(round.number == 4);
    CHECK(round.generation == 900);
    CHECK(round.rank == 1);
    REQUIRE(round.members.size() == 2);
    CHECK(round.members[0].task == "worker/0");
    CHECK(round.members[0].holds);
    CHECK(round.members[1].address.host == "::1");
    CHECK(round.members[1].address.port == 1001);
    CHECK_FALSE(round.members[1].holds);
    const auto waiting = from_rendezvous(to_json(RendezvousMessage(troupe::Waiting{3})));
    CHECK(std::get<troupe::Waiting>(*waiting).count == 3);
    const auto end = from_rendezvous(to_json(RendezvousMessage(EndOfRounds{138, "why.", "do."})));
    CHECK(std::get<EndOfRounds>(*end).exit_code == 138);
    CHECK(std::get<EndOfRounds>(*end).cause == "why.");
    CHECK(std::get<EndOfRounds>(*end).fix == "do.");
    CHECK(std::holds_alternative<troupe::Ping>(
        *from_rendezvous(to_json(RendezvousMessage(troupe::Ping{})))));
  }

  TEST_CASE("round_messages: malformed messages are refused, never thrown") {
    const std::string ready = to_json(WorkerMessage(sample_ready()));
    const std::string round = to_json(RendezvousMessage(sample_round()));
    for (const std::string& good : {ready, round}) {
      for (std::size_t n = 0; n < good.size(); ++n) {
        CHECK_FALSE(from_worker(good.substr(0, n)));
        CHECK_FALSE(from_rendezvous(good.substr(0, n)));
      }
    }
    for (const char* wrong : {"", "[]", "{}", "null", "{\"kind\":7}", "{\"kind\":\"other\"}",
                              "{\"kind\":\"started\",\"kind\":\"started\"}"}) {
      CHECK_FALSE(from_worker(wrong));
      CHECK_FALSE(from_rendezvous(wrong));
    }
    CHECK_FALSE(from_worker(round));
    CHECK_FALSE(from_rendezvous(ready));
    CHECK_FALSE(from_worker(std::string(60'000, '[')));
    CHECK_FALSE(from_worker("{\"kind\":\"pong\",\"x\":\"" + std::string(66'000, 'x') + "\"}"));
  }

  TEST_CASE("round_messages: numbers out of range and contradictions are refused") {
    const std::string ready = to_json(WorkerMessage(sample_ready()));
    const std::pair<const char*, const char*> of_ready[] = {
        {"\"step\":120", "\"step\":-1"},
        {"\"step\":120", "\"step\":1.5"},
        {"\"step\":120", "\"step\":9223372036854775808"},
        {"\"round\":3", "\"round\":\"3\""},
        {"\"holds\":true", "\"holds\":1"},
        {"\"round\":3", "\"round\":0"},  // it joins, and holds the state
        {"\"lost\":\"worker/1\"", "\"lost\":null"}};
    for (const auto& [from, to] : of_ready) CHECK_FALSE(from_worker(replaced(ready, from, to)));
    Readiness empty = sample_ready();
    empty.holds = false;
    CHECK(from_worker(to_json(WorkerMessage(empty))));
    empty.admits = true;
    CHECK_FALSE(from_worker(to_json(WorkerMessage(empty))));

    const std::string round = to_json(RendezvousMessage(sample_round()));
    const std::pair<const char*, const char*> of_round[] = {
        {"\"rank\":1", "\"rank\":2"},        {"\"rank\":1", "\"rank\":-1"},
        {"\"number\":4", "\"number\":0"},    {"\"holders\":1", "\"holders\":0"},
        {"\"holders\":1", "\"holders\":3"},  {"\"port\":1000", "\"port\":0"},
        {"\"port\":1000", "\"port\":65536"}, {"\"worker/0\"", "\"\""},
        {"\"127.0.0.1\"", "\"\""},           {"\"kind\":\"round\"", "\"kind\":\"end\""}};
    for (const auto& [from, to] : of_round) CHECK_FALSE(from_rendezvous(replaced(round, from, to)));
    Round nobody = sample_round();
    nobody.members.clear();
    CHECK_FALSE(from_rendezvous(to_json(RendezvousMessage(nobody))));
    CHECK_FALSE(
        from_rendezvous("{\"kind\":\"end\",\"exit_code\":256,\"cause\":\"\",\"fix\":\"\"}"));
    CHECK_FALSE(from_rendezvous("{\"kind\":\"waiting\",\"count\":-1}"));
  }

  TEST_CASE("round_messages: the longest of ours fit into a datagram") {
    Round round{~std::uint64_t{0}, ~std::uint64_t{0}, 1023, {}};
    for (std::size_t i = 0; i < troupe::kMaxRoundMembers; ++i)
      round.members.push_back({"worker/" + std::to_string(i), {"127.0.0.1", 65535}, true});
    const std::string written = to_json(RendezvousMessage(round));
    CHECK(written.size() <= troupe::kMaxRoundMessageBytes);
    CHECK(from_rendezvous(written));
    round.members.push_back(round.members[0]);
    CHECK_FALSE(from_rendezvous(to_json(RendezvousMessage(round))));
    Readiness ready = sample_ready();
    ready.cause = ready.work = std::string(1 << 20, '\x01');  // every byte takes six in JSON
    CHECK(from_worker(to_json(WorkerMessage(ready))));
    ready.work = "\xff\xfe";
    CHECK(from_worker(to_json(WorkerMessage(ready))));
  }
}
