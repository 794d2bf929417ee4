#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/net/server_job.h"
#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/free_port.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/strategies/parameter_server/wire/row_messages.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace servers_join_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

FrameHeader header_of(FrameType type, int rank, std::uint64_t sequence = 0) {
  FrameHeader header;
  header.type = type;
  header.rank = static_cast<std::uint32_t>(rank);
  header.sequence = sequence;
  return header;
}

// A hello as an honest worker would send it.
Hello hello_of(const ServerJob& job, int rank) {
  Hello hello;
  hello.rank = rank;
  hello.task = job.cluster_of(rank).task();
  hello.fingerprint = cluster_fingerprint(job.cluster);
  hello.signature_hash = signature_hash({});
  hello.must_match = server_terms({}, job.pace, job.model).must_match;
  return hello;
}

std::unique_ptr<RawClient> admitted(const ServerJob& job, int rank, std::uint64_t clock = 0) {
  auto raw = std::make_unique<RawClient>(job.cluster.servers[0].address->port);
  REQUIRE(raw->prove({Purpose::serving, 0, job.cluster_of(rank).task(), "ps/0"}));
  raw->send_frame(header_of(FrameType::hello, rank), to_json(hello_of(job, rank)));
  CHECK(raw->read_some() != "");  // entry
  raw->send_frame(header_of(FrameType::enter, rank, clock), "");
  return raw;
}

std::string bytes_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string joining(const ServerJob& job, const Cluster& cluster, const ServerOptions& pace,
                    const ServedModel& model, const JoinTerms& terms) {
  ServerClient client(cluster, job.options, pace, model);
  try {
    client.join(terms);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("servers: what differs is named, with both values, on the worker and on the server") {
    const JoinTerms ours = {{"w float32 [3]", "b float32 [1]"}, {{"--batch-size", "64"}}};
    const auto check =
        [&](const std::string& part, const std::string& there, const std::string& here,
            const std::function<void(ServerOptions&, ServedModel&, JoinTerms&)>& change) {
          ServerJob job(2, 1, bounded_pace(3), test_options(), [&](int) { return ours; });
          ServerOptions pace = job.pace;
          ServedModel model = job.model;
          JoinTerms terms = ours;
          change(pace, model, terms);
          const std::string message = joining(job, job.cluster_of(1), pace, model, terms);
          CAPTURE(message);
          CHECK(has(message, part));
          CHECK(has(message, there + "' on ps/0"));
          CHECK(has(message, here + "' on worker/1"));
          CHECK(is<ConfigError>(job.server_errors()[0]));
          CHECK(message_of(job.server_errors()[0]) == message);
        };
    check("the setting --batch-size", "64", "32",
          [](ServerOptions&, ServedModel&, JoinTerms& t) { t.must_match["--batch-size"] = "32"; });
    check("the setting staleness bound", "3", "(none)",
          [](ServerOptions& p, ServedModel&, JoinTerms&) { p.staleness_bound.reset(); });
    check("the setting placement of the parameters", "", "",
          [](ServerOptions&, ServedModel& m, JoinTerms&) { m.shards[0].rows += 1; });
    check(
        "the model at line 2", "b float32 [1]", "b float64 [1]",
        [](ServerOptions&, ServedModel&, JoinTerms& t) { t.model_signature[1] = "b float64 [1]"; });
  }

  TEST_CASE("servers: strays are refused and do the job no harm") {
    CapturedLog log;
    ServerJob job(2, 2, ServerOptions{});
    const auto chief = job.client(0);
    const auto worker = job.client(1);
    chief->join({});
    worker->join({});
    const Cluster mine = job.cluster_of(1);
    CHECK(has(joining(job, mine, job.pace, job.model, {}),
              "worker/1 is already taken by the process at 127.0.0.1:"));
    Cluster other = mine;
    other.servers.pop_back();
    CHECK(has(joining(job, other, job.pace, job.model, {}), "another cluster description"));
    Cluster stale = mine;
    stale.generation = 0;
    stale.members[1].task = "worker/7";
    CHECK(has(joining(job, stale, job.pace, job.model, {}), "another cluster description"));
    run_ranks(2, [&](int rank) {
      ServerClient& client = rank == 0 ? *chief : *worker;
      rank == 0 ? client.start(job.zero_states(), 0, 10)
                : static_cast<void>(client.wait_for_start());
      FloatModel model(job.model);
      train(client, model, push_one);
      if (rank == 0) CHECK(client.finish("done").updates == 10);
      client.close();
    });
    for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
  }

  // Its machine went without a word: the old connection stays open, and is silent.
  TEST_CASE("servers: a worker that is started again gets in when its silent twin is given up") {
    CapturedLog log;
    GroupOptions options = test_options();
    options.heartbeat_timeout = std::chrono::milliseconds(2500);
    ServerJob job(2, 1, ServerOptions{}, options);
    const auto silent = admitted(job, 1);
    std::promise<void> in;
    auto is_in = in.get_future().share();
    run_ranks(2, [&](int rank) {
      std::unique_ptr<ServerClient> client;
      try {
        client = job.started(rank, 10);
      } catch (...) {
        if (rank == 1) in.set_value();  // the chief must not wait for ever
        throw;
      }
      if (rank == 1) in.set_value();
      is_in.wait();  // or all would be over
      FloatModel model(job.model);
      train(*client, model, push_one);
      if (rank == 0) CHECK(client->finish("done").updates == 10);
      client->close();
    });
    CHECK(message_of(job.server_errors()[0]) == "");
  }

  TEST_CASE("servers: a leftover of an earlier start is refused") {
    CapturedLog log;
    ServerJob job(1, 1, ServerOptions{});  // generation 0
    Cluster newer = job.cluster_of(0);
    newer.generation = 1;
    GroupOptions options = test_options();
    options.start_timeout = std::chrono::milliseconds(300);
    ServerClient early(newer, options, job.pace, job.model);
    CHECK_THROWS_WITH_AS(early.join({}), doctest::Contains("belongs to start 1"), RendezvousError);
    const auto client = job.started(0, 1);
    client->abort("the test is over", 1);
  }

  TEST_CASE("servers: first frames of strangers are closed without a word") {
    ServerJob job(1, 1, ServerOptions{});
    const std::uint16_t port = job.cluster.servers[0].address->port;
    for (const std::string& word :
         {std::string("GET / HTTP/1.1\r\n") + std::string(64, ' '), std::string(4096, '\xff')}) {
      RawClient client(port);
      client.send(word);
      CHECK(client.read_to_end() == "");
    }
    for (int type = 2; type <= static_cast<int>(kLastFrameType); ++type) {
      RawClient client(port);
      REQUIRE(client.prove({Purpose::serving, 0, "worker/0", "ps/0"}));
      client.send_frame(header_of(static_cast<FrameType>(type), 0), "");
      CHECK(client.read_to_end() == "");
    }
    const auto client = job.started(0, 3);
    FloatModel model(job.model);
    CHECK(train(*client, model, push_one).size() == 3);
    client->finish("done");
    client->close();
    CHECK(message_of(job.server_errors()[0]) == "");
  }

  TEST_CASE("servers: a worker that breaks the protocol is lost, the others go on") {
    CapturedLog log;
    ServerJob job(2, 1, ServerOptions{});
    const std::string push =
        bytes_of(encode_push({}, FloatModel(job.model).gradient(1.0F), job.model, 0));
    std::string other_clock = push;
    other_clock[0] = 9;
    const std::vector<std::pair<FrameHeader, std::string>> frames = {
        {header_of(FrameType::begin, 1, 7), ""},
        {header_of(FrameType::begin, 1, ~std::uint64_t{0}), ""},
        {header_of(FrameType::push, 1), push.substr(0, 50)},
        {header_of(FrameType::push, 1), other_clock},
        {header_of(FrameType::push, 1), std::string(2 << 20, 'x')},  // beyond the limit
        {header_of(FrameType::end, 1, 1), ""},                       // of a step never granted
        {header_of(FrameType::end, 1, ~std::uint64_t{0}), ""},
        {header_of(FrameType::enter, 1, 5), ""},
        {header_of(FrameType::hold, 1), ""},
        {header_of(FrameType::finish, 1), finish_to_json("mine")},
        {header_of(FrameType::state, 1), "x"},
        {header_of(FrameType::report, 1), "{}"},
        {header_of(FrameType::statistics, 1), ""},
        {header_of(FrameType::data, 1), ""}};
    auto rogue = admitted(job, 1);
    const auto client = job.started(0, 3);
    for (const auto& [header, payload] : frames) {
      CAPTURE(static_cast<int>(header.type));
      rogue->send_frame(header, payload);
      while (rogue->read_some().find("worker/1 is gone") == std::string::npos) {
        if (header.payload_bytes == 0 && payload.size() > (1 << 20)) break;  // closed at once
        if (header.type == FrameType::data) break;
      }
      rogue.reset();
      rogue = admitted(job, 1);
    }
    rogue.reset();
    FloatModel model(job.model);
    CHECK(train(*client, model, push_one).size() == 3);
    CHECK(client->finish("done").lost.size() >= frames.size());
    CHECK(log.has("it announces more bytes than its type may have"));
    client->close();
    CHECK(message_of(job.server_errors()[0]) == "");
  }

  TEST_CASE("servers: workers that do not come are named when start_timeout is over") {
    GroupOptions options = test_options();
    options.start_timeout = std::chrono::milliseconds(500);
    ServerJob job(3, 1, ServerOptions{}, options);
    const auto client = job.client(0);
    client->join({});
    CHECK_THROWS_WITH_AS(client->start(job.zero_states(), 0, 1),
                         doctest::Contains("worker/1, worker/2 did not join"), RendezvousError);
    CHECK(is<RendezvousError>(job.server_errors()[0]));
  }

  TEST_CASE("servers: a chief that does not come is named") {
    GroupOptions options = test_options();
    options.start_timeout = std::chrono::milliseconds(200);
    ServerJob job(2, 1, ServerOptions{}, options);
    CHECK(is<RendezvousError>(job.server_errors()[0]));
    CHECK(has(message_of(job.server_errors()[0]), "worker/0 did not join"));
  }

  TEST_CASE("servers: a worker that finds no server says where it looked") {
    Cluster cluster;
    cluster.servers = {{"ps/0", Endpoint{"127.0.0.1", free_port()}}};
    GroupOptions options = test_options();
    options.start_timeout = std::chrono::milliseconds(300);
    ServerClient client(cluster, options, ServerOptions{}, small_model(1));
    const std::string where = text("ps/0 at 127.0.0.1:", cluster.servers[0].address->port);
    CHECK_THROWS_WITH_AS(client.join({}), doctest::Contains(where.c_str()), RendezvousError);
  }

  TEST_CASE("servers: nobody takes part without a secret") {
    Cluster cluster;
    cluster.servers = {{"ps/0", Endpoint{"127.0.0.1", 2222}}};
    const ServedModel model = small_model(1);
    GroupOptions options = test_options();
    options.secret = nullptr;
    CHECK_THROWS_WITH_AS(ServerClient(cluster, options, ServerOptions{}, model),
                         doctest::Contains("worker/0 (from local) has no secret"), ConfigError);
    cluster.server = 0;
    FloatStore store(model, 0);
    CHECK_THROWS_WITH_AS(ServerProcess(cluster, options, ServerOptions{}, model, store),
                         doctest::Contains("ps/0 (from local) has no secret"), ConfigError);
  }
}

}  // namespace servers_join_test
