// An elastic group on several nodes, without sockets: how long a node may live that nobody hears,
// and what node 0 makes of what it hears of the others.
#include <csignal>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"
#include "troupe/distributed/elastic/round_messages.h"
#include "troupe/launcher/nodes/launch_node_lease.h"
#include "troupe/launcher/nodes/launch_node_messages.h"
#include "troupe/launcher/nodes/launch_remote_workers.h"
#include "troupe/launcher/nodes/launch_round.h"

namespace launch_elastic_nodes_test {

namespace {

using namespace std::chrono_literals;
using troupe::FrameType;
using troupe::kNodeLease;
using troupe::kNodeLimit;
using troupe::NodeLease;
using troupe::text;
using troupe::WorkerEnded;
using troupe::WorkerStarted;
using Said = std::vector<std::string>;

troupe::Span<const std::byte> bytes_of(const std::string& text) {
  return troupe::as_bytes(troupe::Span<const char>(text.data(), text.size()));
}

/// Node 0's view of 1 + 2 + 1 workers on three nodes.
struct Remote {
  Remote() {
    workers.begin({1, 2, 1});
    workers.listen({[this](int index, troupe::Span<const std::byte> bytes) {
                      note(text("worker/", index, " said ", bytes.size()));
                    },
                    [this](int index, const troupe::Endpoint& listens) {
                      note(text("worker/", index, " starts at ", listens.host, ":", listens.port));
                    },
                    [this](int index, const troupe::EndedProcess& process) {
                      note(text("worker/", index, " ended: ", end_text(process)));
                    },
                    [this](int index, auto) { note(text("worker/", index, " is gone")); },
                    [this](int index) { note(text("worker/", index, " is back")); }});
  }
  bool say(int node, std::uint64_t index, const std::string& message) {
    troupe::FrameHeader header;
    header.type = FrameType::round;
    header.sequence = index;
    return workers.take(node, header, bytes_of(message));
  }
  bool tell(int node, const std::string& news) {
    troupe::FrameHeader header;
    header.type = FrameType::worker;
    return workers.take(node, header, bytes_of(news));
  }
  void note(const std::string& line) { said.push_back(line); }
  /// Since the last call.
  Said take() { return std::exchange(said, {}); }

  boost::asio::io_context io;
  Said said;
  troupe::RemoteWorkers workers{
      io, [this](int node, FrameType type, const std::string& payload, std::uint64_t sequence) {
        note(text("to node/", node, ": ", static_cast<int>(type), " ", payload, " ", sequence));
      }};
};

constexpr troupe::ChildEnd kKilled{128 + SIGKILL, SIGKILL};

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("node lease: it counts from when the last beat that was answered had been sent") {
    NodeLease lease;
    const NodeLease::TimePoint start{};
    lease.begin(start);
    CHECK(lease.until() == start + kNodeLease);
    const auto first = lease.beat(start + 1s);
    const auto second = lease.beat(start + 2s);
    lease.answered(first);  // however late that comes
    CHECK(lease.until() == start + 1s + kNodeLease);
    lease.answered(second);
    CHECK(lease.until() == start + 2s + kNodeLease);
    lease.answered(first);       // again
    lease.answered(second + 1);  // of no beat
    CHECK(lease.until() == start + 2s + kNodeLease);
  }

  TEST_CASE("node lease: an answer to a later beat answers those before it") {
    NodeLease lease;
    lease.begin({});
    const auto first = lease.beat(NodeLease::TimePoint() + 1s);
    const auto second = lease.beat(NodeLease::TimePoint() + 2s);
    lease.answered(second);
    lease.answered(first);
    CHECK(lease.until() == NodeLease::TimePoint() + 2s + kNodeLease);
    // Of those that nobody answers only the last are kept.
    for (int i = 0; i < 1000; ++i) (void)lease.beat(NodeLease::TimePoint() + 3s);
    const auto last = lease.beat(NodeLease::TimePoint() + 4s);
    lease.answered(last - 500);
    CHECK(lease.until() == NodeLease::TimePoint() + 2s + kNodeLease);
    lease.answered(last);
    CHECK(lease.until() == NodeLease::TimePoint() + 4s + kNodeLease);
  }

  TEST_CASE("node lease: it is over before node 0 goes on, whatever is lost on the way") {
    // A beat every second, on its way for `there`, its answer for `back`; the cable is cut at
    // `cut` in one direction or the other. Node 0 goes on kNodeLimit after what it heard last.
    for (const auto there : {0ms, 40ms, 900ms, 3'000ms}) {
      for (const auto back : {0ms, 40ms, 900ms, 3'000ms}) {
        for (const bool cuts_answers : {false, true}) {
          for (auto cut = 0ms; cut < 10s; cut += 333ms) {
            NodeLease lease;
            const NodeLease::TimePoint start{};
            lease.begin(start);
            auto heard = start + there;  // the hello
            std::vector<std::uint64_t> answered;
            for (auto at = 1'000ms; at < 20s; at += 1'000ms) {
              const auto beat = lease.beat(start + at);
              const bool arrives = cuts_answers || at + there < cut;
              if (arrives) heard = start + at + there;
              if (arrives && at + there + back < cut) answered.push_back(beat);
            }
            for (const auto beat : answered) lease.answered(beat);
            CHECK(lease.until() + 500ms <= heard + kNodeLimit);
          }
        }
      }
    }
  }

  TEST_CASE("remote workers: what a node says of its own workers is heard, in order") {
    Remote remote;
    CHECK(remote.tell(1, encode(WorkerStarted{1, {"10.0.0.2", 7}, false})));
    CHECK(remote.say(1, 2, "hello"));
    CHECK(remote.tell(1, encode(WorkerEnded{1, kKilled, 1'500ms})));
    CHECK(remote.say(1, 1, "of one that has ended"));
    CHECK(remote.tell(1, encode(WorkerStarted{1, {"10.0.0.2", 8}, true})));
    CHECK(remote.take() ==
          Said{"worker/1 starts at 10.0.0.2:7", "worker/2 said 5",
               "worker/1 ended: worker/1 on node/1 was killed by signal 9 (Killed) after 1.5 s",
               "worker/1 starts at 10.0.0.2:8"});
  }

  TEST_CASE(
      "remote workers: a node that speaks for others, or contradicts itself, is no launcher") {
    Remote remote;
    CHECK_FALSE(remote.say(1, 0, "x"));
    CHECK_FALSE(remote.say(1, 3, "x"));
    CHECK_FALSE(remote.say(2, 4, "x"));
    CHECK_FALSE(remote.say(1, std::uint64_t{1} << 40, "x"));
    CHECK_FALSE(remote.tell(2, encode(WorkerEnded{1, kKilled, 1ms})));
    CHECK_FALSE(remote.tell(1, encode(WorkerStarted{3, {"h", 1}, false})));
    CHECK_FALSE(remote.tell(1, encode(WorkerStarted{1, {"h", 1}, true})));  // it runs
    CHECK_FALSE(remote.tell(1, "{}"));
    CHECK(remote.tell(1, encode(WorkerEnded{1, kKilled, 1ms})));
    CHECK_FALSE(remote.tell(1, encode(WorkerEnded{1, kKilled, 1ms})));
    CHECK_FALSE(remote.tell(1, encode(WorkerStarted{1, {"h", 1}, false})));
    CHECK(remote.take().size() == 1);
  }

  TEST_CASE("remote workers: those of a lost node live until it must have killed them") {
    Remote remote;
    CHECK(remote.tell(1, encode(WorkerEnded{1, kKilled, 1ms})));
    (void)remote.take();
    remote.workers.heard(1);
    const auto heard = std::chrono::steady_clock::now();
    bool is_over = false;
    remote.workers.fence(1, [&] { is_over = true; });
    remote.io.run_for(100ms);
    CHECK(remote.take().empty());
    CHECK(remote.workers.any_lives());
    remote.io.run();
    CHECK(is_over);
    CHECK(std::chrono::steady_clock::now() - heard >= kNodeLimit - 1ms);
    CHECK(remote.take() == Said{"worker/2 is gone"});
    CHECK(remote.workers.any_lives());  // node/2's
    remote.workers.back(1);
    CHECK(remote.take() == Said{"worker/1 is back", "worker/2 is back"});
  }

  TEST_CASE("remote workers: when training is over, a node where nothing runs is told") {
    Remote remote;
    CHECK(remote.tell(2, encode(WorkerEnded{3, kKilled, 1ms})));
    (void)remote.take();
    CHECK(remote.tell(1, encode(WorkerEnded{1, {0, 0}, 1ms})));
    remote.workers.set_over();
    const Said said = remote.take();
    REQUIRE(said.size() == 2);
    CHECK(said[1].rfind("to node/2: 12 ", 0) == 0);
    CHECK(remote.tell(1, encode(WorkerEnded{2, kKilled, 1ms})));
    CHECK(remote.take().size() == 1);  // node/1 has one that ended well, and knows
    CHECK_FALSE(remote.workers.any_lives());
  }

  TEST_CASE("nodes: one that leaves is not blamed, and may return") {
    troupe::LaunchRound round(2);
    round.leaves(1);
    CHECK_FALSE(round.has(1));
    CHECK_FALSE(round.is_ending());
    round.returns(1);
    CHECK(round.has(1));
    CHECK_FALSE(round.is_complete());
    round.leaves(1);
    CHECK_FALSE(round.on_part(0, {}, /*has_ended=*/true));
    CHECK(round.is_complete());
    CHECK(round.verdict().exit_code == 0);
  }

  TEST_CASE("nodes: messages about workers are read back, and nothing else is") {
    const auto started = troupe::decode_message<WorkerStarted>(
        bytes_of(encode(WorkerStarted{5, {"fd00::1", 41999}, true})));
    REQUIRE(started);
    CHECK((started->worker == 5 && started->listens.host == "fd00::1" && started->joins));
    const auto ended =
        troupe::decode_message<WorkerEnded>(bytes_of(encode(WorkerEnded{5, kKilled, 7ms})));
    REQUIRE(ended);
    CHECK((ended->end.signal == SIGKILL && ended->ran == 7ms));
    const auto order =
        troupe::decode_message<troupe::WorkerOrder>(bytes_of(encode(troupe::WorkerOrder{5, true})));
    REQUIRE(order);
    CHECK(order->starts);
    for (const char* wrong :
         {R"({"kind":"started","worker":5,"host":"","port":1,"joins":true})",
          R"({"kind":"started","worker":5,"host":"h","port":0,"joins":true})",
          R"({"kind":"started","worker":4096,"host":"h","port":1,"joins":true})",
          R"({"kind":"ended","worker":5,"host":"h","port":1,"joins":true})"})
      CHECK_FALSE(troupe::decode_message<WorkerStarted>(bytes_of(wrong)));
    CHECK_FALSE(troupe::decode_message<WorkerEnded>(
        bytes_of(R"({"kind":"ended","worker":1,"code":0,"signal":9,"ran_ms":1})")));
    CHECK_FALSE(
        troupe::decode_message<troupe::WorkerOrder>(bytes_of(R"({"kind":"stop","worker":1})")));
  }
}

}  // namespace launch_elastic_nodes_test
