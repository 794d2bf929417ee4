#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/support/caught.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/checksum.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/join_terms.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/worker_group.h"

namespace join_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

void sum_once(WorkerGroup& group) {
  std::vector<std::int64_t> one = {1};
  group.all_reduce(Span<std::int64_t>(one), Deadline::in(std::chrono::seconds(60)));
  if (one[0] != group.world_size()) throw std::runtime_error("wrong sum");
}

// A hello as an honest worker of `cluster` would send it.
Hello hello_of(const Cluster& cluster) {
  Hello hello;
  if (transport_under_test() != Transport::automatic) {
    hello.must_match["--transport"] = name_of(transport_under_test());
  }
  hello.rank = cluster.rank;
  hello.task = cluster.task();
  hello.fingerprint = cluster_fingerprint(cluster);
  hello.signature_hash = signature_hash({});
  hello.listens = {"127.0.0.1", 9, ""};
  return hello;
}
FrameHeader header_of(FrameType type) {
  FrameHeader header;
  header.type = type;
  header.rank = 1;
  return header;
}

// Two ranks of which rank 1 joins only after `disturb(port)` has run; both must join and sum.
void join_in_spite_of(const std::function<void(std::uint16_t, const Cluster&)>& disturb) {
  LoopbackListener listener;
  const std::uint16_t port = listener.port();
  const auto clusters = make_clusters(2, listener);
  std::promise<void> disturbed;
  auto ready = disturbed.get_future().share();
  auto errors = std::async(std::launch::async, [&] {
    return try_ranks(2, [&](int rank) {
      if (rank == 1) ready.wait();
      WorkerGroup group(clusters[static_cast<std::size_t>(rank)], test_options());
      group.join({});
      sum_once(group);
      group.close();
    });
  });
  std::exception_ptr failed;
  try {
    disturb(port, clusters[1]);
  } catch (...) {
    failed = std::current_exception();
  }
  disturbed.set_value();
  for (const auto& error : errors.get()) CHECK(message_of(error) == "");
  if (failed) std::rethrow_exception(failed);
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("join: a group of one needs no socket") {
    WorkerGroup group(Cluster{}, GroupOptions{});
    group.join({});
    sum_once(group);
    group.barrier(soon());
    group.close();
  }

  TEST_CASE("join: a setting that differs is named on all workers, with both values") {
    const auto errors = try_group(3, sum_once, test_options(), [](int rank) {
      return JoinTerms{{}, {{"--batch-size", rank == 2 ? "32" : "64"}, {"--seed", "1"}}};
    });
    for (const auto& error : errors) {
      CHECK(is<ConfigError>(error));
      const std::string message = message_of(error);
      CAPTURE(message);
      CHECK(has(message, "--batch-size"));
      CHECK(has(message, "'64' on worker/0"));
      CHECK(has(message, "'32' on worker/2"));
    }
  }

  TEST_CASE("join: the first tensor that differs is named on all workers, on both sides") {
    const auto errors = try_group(3, sum_once, test_options(), [](int rank) {
      return JoinTerms{{"fc1.weight float32 [10,5] true",
                        rank == 1 ? "fc1.bias float64 [10] true" : "fc1.bias float32 [10] true"},
                       {}};
    });
    for (const auto& error : errors) {
      CHECK(is<ConfigError>(error));
      const std::string message = message_of(error);
      CAPTURE(message);
      CHECK(has(message, "'fc1.bias float32 [10] true' on worker/0"));
      CHECK(has(message, "'fc1.bias float64 [10] true' on worker/1"));
    }
  }

  TEST_CASE("join: a worker that does not come is named when start_timeout is over") {
    GroupOptions options = test_options();
    options.start_timeout = std::chrono::milliseconds(500);
    LoopbackListener listener;
    const auto clusters = make_clusters(4, listener);
    const auto errors = try_ranks(2, [&](int rank) {
      WorkerGroup group(clusters[static_cast<std::size_t>(rank)], options);
      group.join({});
    });
    for (const auto& error : errors) {
      CHECK(is<RendezvousError>(error));
      const std::string message = message_of(error);
      CAPTURE(message);
      CHECK(has(message, "worker/2, worker/3 did not join"));
      CHECK_FALSE(has(message, "worker/1"));
    }
  }

  TEST_CASE("join: a worker that finds no chief says where it looked") {
    std::vector<Cluster> clusters;
    {
      LoopbackListener listener;
      clusters = make_clusters(2, listener);
      ::close(clusters[0].listener.take());
    }
    GroupOptions options = test_options();
    options.start_timeout = std::chrono::milliseconds(300);
    WorkerGroup group(clusters[1], options);
    const std::string where = text("127.0.0.1:", clusters[1].members[0].address->port);
    CHECK_THROWS_WITH_AS(group.join({}), doctest::Contains(where.c_str()), RendezvousError);
  }

  TEST_CASE("join: a worker with another cluster is refused, the right one still joins") {
    join_in_spite_of([](std::uint16_t, const Cluster& cluster) {
      Cluster other = cluster;
      other.members[1].task = "worker/9";
      WorkerGroup stray(other, test_options());
      CHECK_THROWS_WITH_AS(stray.join({}), doctest::Contains("another cluster description"),
                           ConfigError);
    });
  }

  TEST_CASE("join: a leftover of an earlier start is refused, the right one still joins") {
    LoopbackListener listener;
    auto clusters = make_clusters(2, listener);
    for (Cluster& cluster : clusters) cluster.generation = 7;
    Cluster stale = clusters[1];
    stale.generation = 6;
    auto errors = std::async(std::launch::async, [&] {
      return try_ranks(2, [&](int rank) {
        if (rank == 1) {
          WorkerGroup leftover(stale, test_options());
          CHECK_THROWS_WITH_AS(leftover.join({}), doctest::Contains("belongs to start 6"),
                               ConfigError);
        }
        WorkerGroup group(clusters[static_cast<std::size_t>(rank)], test_options());
        group.join({});
        sum_once(group);
        group.close();
      });
    });
    for (const auto& error : errors.get()) CHECK(message_of(error) == "");
  }

  TEST_CASE("join: a second process with the same task is refused while the first lives") {
    LoopbackListener listener;
    const auto clusters = make_clusters(3, listener);
    std::promise<void> freed;
    const std::vector<int> ranks = {0, 1, 1, 2};
    const auto errors = try_ranks(4, [&](int process) {
      const int rank = ranks[static_cast<std::size_t>(process)];
      if (rank == 2) freed.get_future().wait();  // until then the group cannot be complete
      WorkerGroup group(clusters[static_cast<std::size_t>(rank)], test_options());
      try {
        group.join({});
      } catch (const ConfigError&) {
        freed.set_value();
        throw;
      }
      sum_once(group);
      group.close();
    });
    const std::string first = message_of(errors[1]);
    const std::string second = message_of(errors[2]);
    CHECK((first.empty() || second.empty()));
    CHECK(has(first + second, "worker/1 is already taken by the process at 127.0.0.1:"));
    for (const std::size_t alone : {0, 3}) CHECK(message_of(errors[alone]) == "");
  }

  TEST_CASE("join: garbage, scanners and other protocols are closed without a word") {
    join_in_spite_of([](std::uint16_t port, const Cluster&) {
      const std::vector<std::string> words = {
          "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(64, ' '), "SSH-2.0-x\r\n",
          std::string("\x16\x03\x01\x02\x00\x01", 6) + std::string(600, '\0'),
          std::string(65535, '\xff'), ""};
      for (const std::string& word : words) {
        RawClient client(port);
        client.send(word);
        if (word.size() >= kFrameHeaderBytes) CHECK(client.read_to_end() == "");
      }
    });
  }

  TEST_CASE("join: what is no hello is closed without a word, whoever sends it") {
    join_in_spite_of([](std::uint16_t port, const Cluster& cluster) {
      for (const FrameType type : {FrameType::heartbeat, FrameType::abort, FrameType::start}) {
        RawClient client(port);
        REQUIRE(client.prove(control_identity(cluster)));
        client.send_frame(header_of(type), "");
        CHECK(client.read_to_end() == "");
      }
      RawClient malformed(port);
      REQUIRE(malformed.prove(control_identity(cluster)));
      malformed.send_frame(header_of(FrameType::hello), "{\"rank\":");
      CHECK(malformed.read_to_end() == "");
      RawClient damaged(port);  // right header, payload that does not fit its checksum
      REQUIRE(damaged.prove(control_identity(cluster)));
      FrameHeader header = header_of(FrameType::hello);
      const std::string json = to_json(hello_of(cluster));
      header.payload_bytes = json.size();
      header.payload_checksum = 1;
      const auto head = encode_frame(header);
      damaged.send(std::string(reinterpret_cast<const char*>(head.data()), head.size()) + json);
      CHECK(damaged.read_to_end() == "");
    });
  }

  TEST_CASE("join: an announced length beyond the limit is refused before any of it is read") {
    join_in_spite_of([](std::uint16_t port, const Cluster& cluster) {
      for (const std::uint64_t length :
           {std::uint64_t{65537}, std::uint64_t{1} << 31U, std::uint64_t{1} << 63U, UINT64_MAX}) {
        FrameHeader header = header_of(FrameType::hello);
        auto bytes = encode_frame(header);
        for (std::size_t i = 0; i < 8; ++i) {
          bytes[40 + i] = static_cast<std::byte>(length >> (8 * i));
        }
        const std::uint32_t checksum = checksum_of({bytes.data(), 60});
        for (std::size_t i = 0; i < 4; ++i)
          bytes[60 + i] = static_cast<std::byte>(checksum >> (8 * i));
        RawClient client(port);
        REQUIRE(client.prove(control_identity(cluster)));
        client.send(std::vector<std::byte>(bytes.begin(), bytes.end()));
        CHECK(client.read_to_end() == "");  // closed though not one byte of the payload came
      }
    });
  }

  TEST_CASE("join: beside more silent connections than may be, a worker joins within 3 s") {
    std::vector<std::unique_ptr<RawClient>> silent;
    const auto begin = std::chrono::steady_clock::now();
    join_in_spite_of([&](std::uint16_t port, const Cluster&) {
      for (std::size_t i = 0; i < 3 * max_strangers(); ++i) {
        silent.push_back(std::make_unique<RawClient>(port));
        silent.back()->send("T");
      }
      // The first was dismissed to make room long before its time was over.
      CHECK(silent.front()->read_to_end() == "");
    });
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(3));
  }

  TEST_CASE("join: a handshake that stays unfinished is closed after its time") {
    join_in_spite_of([](std::uint16_t port, const Cluster&) {
      const auto begin = std::chrono::steady_clock::now();
      RawClient slow(port);
      slow.send("TRUP");
      CHECK(slow.read_to_end() == "");
      CHECK(std::chrono::steady_clock::now() - begin >=
            kStrangerTime - std::chrono::milliseconds(100));
    });
  }

  TEST_CASE("join: a link hello without the session is closed") {
    LoopbackListener listener;
    const std::uint16_t port = listener.port();
    const auto clusters = make_clusters(2, listener);
    const auto errors = try_ranks(2, [&](int rank) {
      WorkerGroup group(clusters[static_cast<std::size_t>(rank)], test_options());
      group.join({});
      if (rank == 0) {
        RawClient intruder(port);
        REQUIRE(intruder.prove({Purpose::link, 0, "worker/1", "worker/0"}));
        intruder.send_frame(header_of(FrameType::link_hello), std::string(16, 'x'));
        CHECK(intruder.read_to_end() == "");
      }
      sum_once(group);
      group.close();
    });
    for (const auto& error : errors) CHECK(message_of(error) == "");
  }

  TEST_CASE("join: a worker that leaves while the group gathers may come again") {
    LoopbackListener listener;
    const std::uint16_t port = listener.port();
    const auto clusters = make_clusters(3, listener);
    std::promise<void> left;
    const auto errors = try_ranks(3, [&](int rank) {
      if (rank == 2) left.get_future().wait();
      if (rank == 1) {
        {
          RawClient early(port);  // an honest hello; the answer shows that it was admitted
          REQUIRE(early.prove(control_identity(clusters[1])));
          early.send_frame(header_of(FrameType::hello), to_json(hello_of(clusters[1])));
          CHECK(early.read_some() != "");
        }
        left.set_value();
      }
      WorkerGroup group(clusters[static_cast<std::size_t>(rank)], test_options());
      group.join({});
      sum_once(group);
      group.close();
    });
    for (const auto& error : errors) CHECK(message_of(error) == "");
  }
}

}  // namespace join_test
