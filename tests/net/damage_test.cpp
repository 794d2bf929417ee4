// One bit of what travels by TCP is turned over on the way: nobody goes on with it.
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/caught.h"
#include "tests/support/flipping_proxy.h"
#include "tests/support/redirected_connect.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/worker_group.h"

namespace damage_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

GroupOptions over_tcp(detail::SumRoute route = detail::SumRoute::automatic) {
  GroupOptions options = test_options();
  options.transport = Transport::tcp;
  options.sum_route = route;
  return options;
}

// What happened to a group whose connections to the chief led through the proxy.
struct Outcome {
  RankErrors errors;
  bool flipped = false;
};

Outcome run_through(const Flip& flip, int world_size, const GroupOptions& options,
                    const std::function<void(WorkerGroup&)>& work,
                    const std::string& host = "127.0.0.1") {
  LoopbackListener listener;
  const std::uint16_t port = listener.port();
  std::vector<Cluster> clusters = make_clusters(world_size, listener);
  for (Cluster& cluster : clusters) cluster.members[0].address->host = host;
  FlippingProxy proxy(port, flip);
  const RedirectedConnect redirected(port, proxy.port());
  Outcome outcome;
  outcome.errors = try_ranks(world_size, [&](int rank) {
    WorkerGroup group(clusters[static_cast<std::size_t>(rank)], options);
    group.join({});
    work(group);
    group.close();
  });
  outcome.flipped = proxy.has_flipped();
  return outcome;
}

// Ends with this error on all ranks. Those whose own values were right may have returned from the
// collective before they heard of it.
void check_named(const Outcome& outcome, const Flip& flip) {
  REQUIRE(outcome.flipped);
  const std::string link =
      flip.from == 0 ? "the link from worker/0 to worker/"
                     : text("the link from worker/", flip.from, " to worker/0 (127.0.0.1)");
  for (const auto& error : outcome.errors) {
    const std::string message = message_of(error);
    CAPTURE(message);
    CHECK(has(message, link));
    CHECK(has(message, "delivered damaged bytes"));
    CHECK_FALSE(has(message, "hook"));
    CHECK(is<PeerLost>(error));
    CHECK(exit_code_of(error) == kExitPeerLost);
  }
}

void require_all(const std::vector<float>& values, int expected) {
  const auto right = static_cast<float>(expected);
  if (std::any_of(values.begin(), values.end(), [&](float value) { return value != right; })) {
    throw std::runtime_error("a wrong sum was returned");
  }
}

void sum(WorkerGroup& group, std::size_t n) {
  std::vector<float> values(n, 1.0F + static_cast<float>(group.rank()));
  group.all_reduce(Span<float>(values), soon());
  require_all(values, group.world_size() * (group.world_size() + 1) / 2);
}

void compressed_sum(WorkerGroup& group, std::size_t n) {
  std::vector<float> values(n, 1.0F);
  std::vector<float> errors(n);
  group.all_reduce(Span<float>(values), Span<float>(errors), WireType::float16, soon());
  require_all(values, group.world_size());
}

void broadcast(WorkerGroup& group, std::size_t n) {
  std::vector<float> values(n, group.rank() == 2 ? 1.0F : 0.0F);
  group.broadcast(as_writable_bytes(Span<float>(values)), 2, soon());
  require_all(values, 1);
}

/// A collective in which the chief, whose connections lead through the proxy, sends on to one what
/// it has made of another's bytes.
struct Work {
  std::string name;
  std::uint32_t from;  // who sends to the chief
  detail::SumRoute route;
  std::function<void(WorkerGroup&)> run;
};
std::vector<Work> works_of_three(std::size_t most) {
  using Group = WorkerGroup;
  return {
      {"direct", 1, detail::SumRoute::direct, [=](Group& group) { sum(group, most); }},
      {"doubling", 1, detail::SumRoute::doubling,
       [=](Group& group) { sum(group, std::min<std::size_t>(most, 20'000)); }},
      {"two-level", 2, detail::SumRoute::two_level, [=](Group& group) { sum(group, most / 5); }},
      {"ring", 2, detail::SumRoute::automatic,
       [=](Group& group) { compressed_sum(group, most * 3 / 5); }},
      {"tree", 2, detail::SumRoute::automatic,
       [=](Group& group) { broadcast(group, most * 3 / 5); }},
  };
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("damage: one bit at a hundred random places of sums ends the group with its name") {
    std::mt19937_64 random(15);
    for (int place = 0; place < 100; ++place) {
      CAPTURE(place);
      Flip flip;
      flip.from = static_cast<std::uint32_t>(random() % 2);
      flip.bit = random();
      const std::size_t n = place % 2 == 0 ? 1 + random() % 300 : 60'000 + random() % 300'000;
      check_named(run_through(flip, 2, over_tcp(), [&](WorkerGroup& group) { sum(group, n); }),
                  flip);
    }
  }

  TEST_CASE("damage: in the last collective of three workers nobody returns with it") {
    std::mt19937_64 random(3);
    for (const Work& work : works_of_three(500'000)) {
      for (int place = 0; place < 20; ++place) {
        CAPTURE(work.name);
        CAPTURE(place);
        Flip flip;
        flip.from = work.from;
        flip.bit = random();
        check_named(run_through(flip, 3, over_tcp(work.route), work.run), flip);
      }
    }
  }

  // Its seal comes late: what has been made of it meanwhile has been sent on, but is not used.
  TEST_CASE("damage: what was made of bytes is good for nobody before their seal has come") {
    for (const Work& work : works_of_three(4000)) {
      CAPTURE(work.name);
      Flip flip;
      flip.from = work.from;
      flip.bit = 777;
      flip.holds_seal = true;
      check_named(run_through(flip, 3, over_tcp(work.route), work.run), flip);
    }
  }

  TEST_CASE("damage: one bit of a data message's header is no other collective") {
    for (std::uint64_t bit = 0; bit < 8 * kFrameHeaderBytes; bit += 13) {
      CAPTURE(bit);
      Flip flip;
      flip.from = 1;
      flip.in_header = true;
      flip.bit = bit;
      check_named(run_through(flip, 2, over_tcp(), [](WorkerGroup& group) { sum(group, 500); }),
                  flip);
    }
  }

  TEST_CASE("damage: one bit of a control frame is named by both ends") {
    for (const std::uint32_t from : {0U, 1U}) {
      for (std::uint64_t bit = 0; bit < 8 * kFrameHeaderBytes; bit += 37) {
        CAPTURE(from);
        CAPTURE(bit);
        Flip flip;
        flip.type = FrameType::heartbeat;
        flip.from = from;
        flip.least_payload = 0;
        flip.in_header = true;
        flip.bit = bit;
        flip.skip = 2;
        GroupOptions options = over_tcp();
        options.heartbeat_interval = std::chrono::milliseconds(20);
        check_named(run_through(flip, 2, options,
                                [](WorkerGroup& group) {
                                  for (;;) sum(group, 10);
                                }),
                    flip);
      }
    }
  }

  TEST_CASE("damage: between machines nobody on the way finds a frame, of control or of values") {
    for (const FrameType type : {FrameType::hello, FrameType::link_hello, FrameType::data}) {
      CAPTURE(static_cast<int>(type));
      Flip flip;
      flip.type = type;
      flip.from = 1;
      // 127.0.0.1 as only the system's resolver reads it: what travels to a name is encrypted.
      const Outcome outcome = run_through(
          flip, 2, over_tcp(), [](WorkerGroup& group) { sum(group, 5000); }, "127.1");
      CHECK_FALSE(outcome.flipped);
      for (const auto& error : outcome.errors) CHECK(message_of(error) == "");
    }
  }
}

}  // namespace damage_test
