// Who is let in at the chief: a worker that was started again, and one of another build.
#include <boost/asio/post.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/eventually.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/net/connection.h"
#include "troupe/distributed/net/network_thread.h"
#include "troupe/distributed/net/strangers.h"
#include "troupe/distributed/worker_group.h"

namespace door_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

// As an honest worker of `cluster` introduces itself.
void say_hello(RawClient& client, const Cluster& cluster) {
  REQUIRE(client.prove(control_identity(cluster)));
  JoinTerms terms;
  if (transport_under_test() != Transport::automatic) {
    terms.must_match["--transport"] = name_of(transport_under_test());
  }
  Hello hello = make_hello(cluster, terms);
  hello.listens = {"127.0.0.1", 9, ""};
  FrameHeader header;
  header.type = FrameType::hello;
  header.rank = static_cast<std::uint32_t>(cluster.rank);
  client.send_frame(header, to_json(hello));
}

int version_of(const std::string& frame) { return frame.size() < 6 ? 0 : frame[4]; }

// The type of the next frame that is no heartbeat.
FrameType next_frame(RawClient& client) {
  for (;;) {
    const std::string head = client.read(kFrameHeaderBytes);
    FrameHeader header;
    if (head.size() < kFrameHeaderBytes) return FrameType::goodbye;
    const auto* const bytes = reinterpret_cast<const std::byte*>(head.data());
    REQUIRE(decode_frame({bytes, head.size()}, header) == FrameFault::none);
    static_cast<void>(client.read(header.payload_bytes));
    if (header.type != FrameType::heartbeat) return header.type;
  }
}

// All ranks join and sum; workers only when `first(port, clusters)` has run, the last of them after
// `then()` too.
void join_after(int world_size, const GroupOptions& options,
                const std::function<void(std::uint16_t, const std::vector<Cluster>&)>& first,
                const std::function<void()>& then = nullptr) {
  LoopbackListener listener;
  const std::uint16_t port = listener.port();
  const auto clusters = make_clusters(world_size, listener);
  std::promise<void> done;
  auto is_done = done.get_future().share();
  auto errors = std::async(std::launch::async, [&] {
    return try_ranks(world_size, [&](int rank) {
      if (rank > 0) is_done.wait();
      if (rank == world_size - 1 && then) then();
      WorkerGroup group(clusters[static_cast<std::size_t>(rank)], options);
      group.join({});
      std::vector<std::int64_t> one = {1};
      group.all_reduce(Span<std::int64_t>(one), Deadline::in(std::chrono::seconds(60)));
      if (one[0] != world_size) throw std::runtime_error("wrong sum");
      group.close();
    });
  });
  std::exception_ptr failed;
  try {
    first(port, clusters);
  } catch (...) {
    failed = std::current_exception();
  }
  done.set_value();
  for (const auto& error : errors.get()) CHECK(message_of(error) == "");
  if (failed) std::rethrow_exception(failed);
}

// A process on the chief's port that answers every hello with one frame.
class ChiefThatSays {
 public:
  ChiefThatSays(int listen_fd, const FrameHeader& header, const std::string& payload)
      : acceptor_(network_.context(), listen_fd) {
    network_.start([](const std::string&) {});
    boost::asio::post(network_.context(), [this, header, payload] {
      acceptor_.start({test_secret(), false, "worker/0", 0},
                      [this, header, payload](Introduction first) {
                        connection_ = Connection::make(std::move(first.from));
                        connection_->send(header, payload);
                      });
    });
  }
  ~ChiefThatSays() { network_.stop(); }

 private:
  NetworkThread network_;
  Acceptor acceptor_;
  std::shared_ptr<Connection> connection_;
};

// What a worker's join() throws when the chief answers its hello like this.
std::string join_message(const FrameHeader& header, const std::string& payload) {
  LoopbackListener listener;
  const auto clusters = make_clusters(2, listener);
  const ChiefThatSays chief(clusters[0].listener.take(), header, payload);
  WorkerGroup group(clusters[1], test_options());
  try {
    group.join({});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Of this process.
std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("door: a worker that was killed and started again at once waits for its own seat") {
    const CapturedLog log;
    join_after(4, test_options(), [](std::uint16_t port, const std::vector<Cluster>& clusters) {
      auto killed = std::make_unique<RawClient>(port);
      say_hello(*killed, clusters[1]);
      CHECK(next_frame(*killed) == FrameType::waiting);  // it is in
      RawClient again(port);
      say_hello(again, clusters[1]);
      RawClient other(port);  // who is answered after `again` has knocked
      say_hello(other, clusters[2]);
      CHECK(next_frame(other) == FrameType::waiting);
      killed.reset();
      CHECK(next_frame(again) == FrameType::waiting);
    });
  }

  // Its machine went without a word: the old connection stays open, and is silent.
  TEST_CASE("door: a worker that is started again gets in when its silent twin is given up") {
    const CapturedLog log;
    GroupOptions options = test_options();
    options.heartbeat_interval = std::chrono::milliseconds(100);
    options.heartbeat_timeout = std::chrono::milliseconds(2500);  // the newcomer's too
    std::unique_ptr<RawClient> silent;
    const auto take_seat = [&](std::uint16_t port, const std::vector<Cluster>& clusters) {
      silent = std::make_unique<RawClient>(port);
      say_hello(*silent, clusters[1]);
      CHECK(next_frame(*silent) == FrameType::waiting);
    };
    // Before it has knocked nobody can know that worker/1 is not the one that is here.
    join_after(3, options, take_seat, [&] {
      CHECK(eventually([&] { return log.has("worker/1 is here again while the process at"); }));
    });
    CHECK(log.has("worker/1 left before the group was complete (no heartbeat for"));
  }

  TEST_CASE("door: one knock waits for a seat, the next is to come again") {
    const CapturedLog log;
    join_after(3, test_options(), [](std::uint16_t port, const std::vector<Cluster>& clusters) {
      RawClient holder(port);
      say_hello(holder, clusters[1]);
      CHECK(next_frame(holder) == FrameType::waiting);
      RawClient waits(port);
      say_hello(waits, clusters[1]);
      RawClient next(port);
      say_hello(next, clusters[1]);
      const std::string answer = next.read_to_end();
      CHECK(has(answer, "worker/1 is already taken"));
      CHECK(has(answer, "\"retry\":true"));
    });
  }

  TEST_CASE("door: a stranger that names a taken seat is turned away at once") {
    const CapturedLog log;
    join_after(3, test_options(), [](std::uint16_t port, const std::vector<Cluster>& clusters) {
      RawClient holder(port);
      say_hello(holder, clusters[1]);
      CHECK(next_frame(holder) == FrameType::waiting);
      Cluster other = clusters[1];
      other.members[2].task = "worker/9";
      RawClient stranger(port);
      say_hello(stranger, other);
      CHECK(has(stranger.read_to_end(), "another cluster description"));
    });
  }

  TEST_CASE("door: who speaks another version is told ours, and nothing else") {
    const CapturedLog log;
    join_after(2, test_options(), [](std::uint16_t port, const std::vector<Cluster>&) {
      for (const std::uint16_t version : {1, 2, 9}) {
        CAPTURE(version);
        RawClient client(port);
        FrameHeader header;  // versions 1 and 2 begin with a hello
        header.type = FrameType::hello;
        header.version = version;
        client.send_frame(header, "{}");
        const std::string answer = client.read_to_end();
        CHECK(answer.size() == kFrameHeaderBytes);  // what they read
        CHECK(answer.substr(0, 4) == "TRUP");
        CHECK(version_of(answer) == kProtocolVersion);
        CHECK(answer.find_first_not_of('\0', kProofPrefixBytes) == std::string::npos);
      }
    });
    CHECK_FALSE(log.has("version"));
    CHECK_FALSE(log.has("refused"));
  }

  TEST_CASE("door: a chief of another version is named, with both versions") {
    FrameHeader header;
    header.type = FrameType::refuse;
    header.version = 1;
    const std::string message = join_message(header, to_json(Refusal{"old.", "old.", Retry::no}));
    CAPTURE(message);
    CHECK(has(message, "the chief worker/0 and worker/1 cannot train together"));
    CHECK(has(message, text("it speaks version 1 of the protocol, this process version ",
                            kProtocolVersion)));
    CHECK(has(message, "run the same build of Troupe in every process."));
  }

  TEST_CASE("door: an abort that names nobody of the cluster is no silent end") {
    FrameHeader header;
    header.type = FrameType::abort;
    Failure failure;
    failure.culprit = 7;
    const std::string message = join_message(header, to_json(failure));
    CAPTURE(message);
    CHECK(has(message, "worker/0 is gone: it sent a frame that the protocol does not have"));
  }

  TEST_CASE("door: nobody's failure makes the chief end with success") {
    const CapturedLog log;
    LoopbackListener listener;
    const std::uint16_t port = listener.port();
    const auto clusters = make_clusters(3, listener);
    auto error = std::async(std::launch::async, [&] {
      GroupOptions options = test_options();
      options.start_timeout = std::chrono::seconds(1);
      return try_ranks(1, [&](int) { WorkerGroup(clusters[0], options).join({}); }).front();
    });
    RawClient client(port);
    say_hello(client, clusters[1]);
    CHECK(next_frame(client) == FrameType::waiting);  // it is in
    FrameHeader header;
    header.type = FrameType::report;
    header.rank = 1;
    client.send_frame(header, to_json(Failure{FailureKind::peer_failed, 1, "done.", "none.", 0}));
    try {
      std::rethrow_exception(error.get());
    } catch (const Error& ended) {
      CAPTURE(ended.what());
      CHECK(ended.exit_code() == kExitPeerLost);
      CHECK(has(ended.what(), "worker/1, worker/2 did not join"));
    }
    CHECK(
        log.has("worker/1 left before the group was complete (it sent a frame that the protocol "
                "does not have)"));
  }

  TEST_CASE("door: who made its links and has no more patience does not know whose are missing") {
    LoopbackListener listener;
    const std::uint16_t port = listener.port();
    const auto clusters = make_clusters(3, listener);
    auto error = std::async(std::launch::async, [&] {
      return try_ranks(1, [&](int) { WorkerGroup(clusters[0], test_options()).join({}); }).front();
    });
    RawClient patient(port);
    say_hello(patient, clusters[2]);
    RawClient client(port);
    say_hello(client, clusters[1]);
    while (next_frame(client) == FrameType::waiting) {
    }
    FrameHeader header;
    header.rank = 1;
    header.type = FrameType::ready;
    client.send_frame(header, "");
    header.type = FrameType::report;
    client.send_frame(header, to_json(start_timeout(0, "the group did not form", {}, "", "")));
    const std::string message = message_of(error.get());
    CAPTURE(message);
    CHECK(has(message, "worker/2 did not make all links"));
    CHECK_FALSE(has(message, "worker/1"));
  }

  // Its answer travels far: what it has opened is not closed for those who say nothing.
  TEST_CASE("door: a crowd that says nothing takes the place of nobody who has opened") {
    boost::asio::io_context context;
    std::vector<std::string> seen;
    Acceptor door(context, "127.0.0.1", 0);
    door.start({test_secret(), false, "worker/0", 0},
               [&](const Introduction& first) { seen.push_back(first.from.identity.client); });
    const auto work = [&] {
      while (context.run_one_for(std::chrono::milliseconds(20)) > 0) {
      }
    };
    Proof proof(*test_secret(), Identity{Purpose::control, 0, "worker/1", "worker/0"});
    RawClient far_away(door.endpoint().port());
    far_away.send(proof.give());
    std::vector<std::unique_ptr<RawClient>> crowd;
    for (std::size_t i = 0; i < max_strangers() + 5; ++i) {
      crowd.push_back(std::make_unique<RawClient>(door.endpoint().port()));
      context.poll();
    }
    const std::string challenge = far_away.read(kChallengeBytes);
    REQUIRE(challenge.size() == kChallengeBytes);
    const auto* const bytes = reinterpret_cast<const std::byte*>(challenge.data());
    proof.take({bytes, kProofPrefixBytes});
    proof.take({bytes + kProofPrefixBytes, kChallengeBytes - kProofPrefixBytes});
    far_away.send(proof.give());
    FrameHeader hello;
    hello.type = FrameType::hello;
    far_away.send_frame(hello, "{}");
    work();
    CHECK(seen == std::vector<std::string>{"worker/1"});
  }

  TEST_CASE("door: no more strangers are held than may wait") {
    boost::asio::io_context context;
    Acceptor door(context, "127.0.0.1", 0);
    door.start({test_secret(), false, "worker/0", 0}, [](const Introduction&) {});
    context.poll();
    const std::size_t before = open_files();
    std::vector<std::unique_ptr<RawClient>> crowd;
    for (std::size_t i = 0; i < 3 * max_strangers(); ++i) {
      crowd.push_back(std::make_unique<RawClient>(door.endpoint().port()));
      context.poll();
    }
    CHECK(open_files() - before - crowd.size() == max_strangers());
    CHECK(crowd.front()->read_to_end() == "");  // it made room
  }

  TEST_CASE(
      "door: a thousand connections of a scanner leave no line in the log, and no file open") {
    const std::vector<std::string> words = {
        "",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(200, ' '),
        "SSH-2.0-scanner\r\n",
        std::string("\x16\x03\x01\x02\x00\x01", 6) + std::string(600, '\0'),
        std::string(65535, '\xff'),
        "TRUP" + std::string(200, '\0')};
    for (const bool encrypts : {false, true}) {
      CAPTURE(encrypts);
      const CapturedLog log;
      boost::asio::io_context context;
      Acceptor door(context, "127.0.0.1", 0);
      int met = 0;
      door.start({test_secret(), encrypts, "worker/0", 0}, [&](const Introduction&) { ++met; });
      context.poll();
      const std::size_t before = open_files();
      for (std::size_t i = 0; i < 500; ++i) {
        RawClient scanner(door.endpoint().port());
        scanner.send(words[i % words.size()]);
        context.poll();
      }
      CHECK(eventually([&] {
        context.poll();
        return open_files() == before;
      }));
      CHECK(met == 0);
      CHECK(log.text() == "");
    }
  }
}

}  // namespace door_test
