// What the chief does when very many workers come, or do not.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/join_terms.h"
#include "troupe/distributed/worker_group.h"

namespace join_crowd_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

/// What the chief of `clusters` throws when the group has not come together within `limit`.
std::string chief_alone(const std::vector<Cluster>& clusters, std::chrono::milliseconds limit) {
  GroupOptions options = test_options();
  options.start_timeout = limit;
  return message_of(try_ranks(1, [&](int) {
                      WorkerGroup chief(clusters.front(), options);
                      chief.join({});
                    }).front());
}

void say_hello(RawClient& client, const Cluster& cluster) {
  REQUIRE(client.prove(control_identity(cluster)));
  Hello hello;
  hello.rank = cluster.rank;
  hello.task = cluster.task();
  hello.fingerprint = cluster_fingerprint(cluster);
  hello.signature_hash = signature_hash({});
  hello.listens = {"127.0.0.1", 9, ""};
  FrameHeader header;
  header.type = FrameType::hello;
  header.rank = static_cast<std::uint32_t>(cluster.rank);
  client.send_frame(header, to_json(hello));
}

}  // namespace

TEST_SUITE("net") {
  // Who is missing is told now and then, not to everybody with everyone who comes.
  TEST_CASE("join: a crowd that comes at once is not told of each of its members") {
    constexpr int kWorkers = 48;
    LoopbackListener listener;
    const std::uint16_t port = listener.port();
    const auto clusters = make_clusters(kWorkers, listener);
    auto error = std::async(std::launch::async,
                            [&] { return chief_alone(clusters, std::chrono::milliseconds(600)); });
    std::vector<std::unique_ptr<RawClient>> crowd;
    for (int rank = 1; rank < kWorkers - 1; ++rank) {  // the last one does not come
      crowd.push_back(std::make_unique<RawClient>(port));
      say_hello(*crowd.back(), clusters[static_cast<std::size_t>(rank)]);
    }
    CHECK(error.get().find("worker/47 did not join") != std::string::npos);
    const std::string heard = crowd.front()->read_to_end();
    int frames = 0;  // the chief was alone for too short a time to send a heartbeat
    for (std::size_t at = heard.find("TRUP"); at != std::string::npos;
         at = heard.find("TRUP", at + 1)) {
      ++frames;
    }
    CAPTURE(frames);
    CHECK(frames >= 2);             // who is missing, and the end
    CHECK(frames <= kWorkers / 4);  // with everyone who came it would be 45
  }
  TEST_CASE("join: of many that are missing the first are named and the others counted") {
    LoopbackListener listener;
    const auto clusters = make_clusters(40, listener);
    const std::string message = chief_alone(clusters, std::chrono::milliseconds(100));
    CHECK(message.find(": worker/1, worker/2, ") != std::string::npos);
    CHECK(message.find("worker/16 and 23 more did not join") != std::string::npos);
  }
}

}  // namespace join_crowd_test
