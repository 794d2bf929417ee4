// Whoever does not hold the secret of a group, or is not who it claims to be, is closed without a
// word at every port, and does the group no harm.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/free_port.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/net/link_listener.h"
#include "troupe/distributed/net/strangers.h"
#include "troupe/distributed/worker_group.h"

namespace closed_group_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using Steady = std::chrono::steady_clock;

// 127.0.0.1 as only the system's resolver reads it: what travels to a name is encrypted.
constexpr const char* kNamedLoopback = "127.1";

const std::vector<Purpose> kPurposes = {Purpose::control, Purpose::link, Purpose::serving,
                                        Purpose::agent};

void sum_once(WorkerGroup& group) {
  std::vector<std::int64_t> one = {1};
  group.all_reduce(Span<std::int64_t>(one), Deadline::in(std::chrono::seconds(60)));
  if (one[0] != group.world_size()) throw std::runtime_error("wrong sum");
}

/// A group of two forms in spite of what `disturb` does at the chief's port before, and sums in
/// spite of what it does at both ports after.
void form_in_spite_of(
    const std::function<void(std::uint16_t port, const std::string& task)>& disturb) {
  LoopbackListener listener;
  const std::uint16_t chief = listener.port();
  const std::uint16_t worker = free_port();
  auto clusters = make_clusters(2, listener);
  for (Cluster& cluster : clusters) {
    cluster.members[1].address = {cluster.members[0].address->host, worker};
  }
  std::promise<void> before_done;
  auto before = before_done.get_future().share();
  std::promise<void> after_done;
  auto after = after_done.get_future().share();
  std::promise<void> formed;
  auto errors = std::async(std::launch::async, [&] {
    return try_ranks(2, [&](int rank) {
      if (rank == 1) before.wait();
      WorkerGroup group(clusters[static_cast<std::size_t>(rank)], test_options());
      group.join({});
      sum_once(group);
      if (rank == 0) formed.set_value();
      after.wait();
      sum_once(group);
      group.close();
    });
  });
  std::exception_ptr failed;
  const auto guarded = [&](const auto& act) {
    try {
      act();
    } catch (...) {
      failed = std::current_exception();
    }
  };
  guarded([&] { disturb(chief, "worker/0"); });
  before_done.set_value();
  if (!failed &&
      formed.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready) {
    guarded([&] { disturb(chief, "worker/0"), disturb(worker, "worker/1"); });
  }
  after_done.set_value();
  for (const auto& error : errors.get()) CHECK(message_of(error) == "");
  if (failed) std::rethrow_exception(failed);
}

std::string worker_message(const std::exception_ptr& error) {
  CHECK(is<RendezvousError>(error));
  return message_of(error);
}

// What both ranks throw when they are given these options. The chief waits longer, on a busy
// machine, too: the worker is to be told why, and not that nobody listens any more.
std::vector<std::string> join_with(std::vector<GroupOptions> options, const char* host) {
  options[0].start_timeout += std::chrono::seconds(2);
  LoopbackListener listener;
  auto clusters = make_clusters(2, listener);
  for (Cluster& cluster : clusters) cluster.members[0].address->host = host;
  std::vector<std::string> messages;
  for (const auto& error : try_ranks(2, [&](int rank) {
         WorkerGroup group(clusters[static_cast<std::size_t>(rank)],
                           options[static_cast<std::size_t>(rank)]);
         group.join({});
       })) {
    messages.push_back(worker_message(error));
  }
  return messages;
}

/// What a group answers, one way or another, where it comes from one of its own.
void say_hello(RawClient& client) {
  FrameHeader header;
  header.type = FrameType::hello;
  header.rank = 1;
  Hello hello;
  hello.rank = 1;
  hello.task = "worker/1";
  hello.listens = {"127.0.0.1", 9, ""};
  client.send_frame(header, to_json(hello));
}

GroupOptions impatient_options() {
  GroupOptions options = test_options();
  options.start_timeout = std::chrono::milliseconds(1000);
  return options;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("closed: with another secret nobody gets in, at any port, for anything") {
    const CapturedLog log;
    form_in_spite_of([](std::uint16_t port, const std::string& task) {
      for (const Purpose purpose : kPurposes) {
        RawClient client(port);
        CHECK_FALSE(client.prove({purpose, 0, "worker/1", task}, *test_secret(8)));
      }
      // One that does not care about the answer, and sends a proof of its own secret.
      Proof other(*test_secret(8), Identity{Purpose::control, 0, "worker/1", task});
      Proof accomplice(*test_secret(8), task);
      const auto opening = other.give();
      accomplice.take({opening.data(), kProofPrefixBytes});
      accomplice.take({opening.data() + kProofPrefixBytes, kOpeningBytes - kProofPrefixBytes});
      const auto challenge = accomplice.give();
      other.take({challenge.data(), kProofPrefixBytes});
      other.take({challenge.data() + kProofPrefixBytes, kChallengeBytes - kProofPrefixBytes});
      RawClient client(port);
      client.send(opening);
      client.send(other.give());
      say_hello(client);
      CHECK(client.read_to_end().size() == kChallengeBytes);  // and no word more
    });
    CHECK_FALSE(log.has("refused"));
  }

  TEST_CASE("closed: what was said in a former run is worth nothing in the next") {
    std::string opening;
    std::string proof;
    form_in_spite_of([&](std::uint16_t port, const std::string& task) {
      if (task != "worker/0") return;
      if (!opening.empty()) {
        RawClient again(port);
        again.send(opening + proof);
        say_hello(again);
        CHECK(again.read_to_end().size() == kChallengeBytes);
        return;
      }
      Proof honest(*test_secret(), Identity{Purpose::control, 0, "worker/1", task});
      const auto first = honest.give();
      opening.assign(reinterpret_cast<const char*>(first.data()), first.size());
      RawClient client(port);
      client.send(opening);
      const std::string challenge = client.read(kChallengeBytes);
      const auto* const bytes = reinterpret_cast<const std::byte*>(challenge.data());
      honest.take({bytes, kProofPrefixBytes});
      honest.take({bytes + kProofPrefixBytes, kChallengeBytes - kProofPrefixBytes});
      const auto last = honest.give();
      REQUIRE(last.size() == kClosingProofBytes);
      proof.assign(reinterpret_cast<const char*>(last.data()), last.size());
    });
  }

  TEST_CASE("closed: its own words sent back convince nobody") {
    form_in_spite_of([](std::uint16_t port, const std::string& task) {
      Proof opens(*test_secret(8), Identity{Purpose::control, 0, "worker/1", task});
      RawClient client(port);
      client.send(opens.give());
      const std::string challenge = client.read(kChallengeBytes);
      client.send(challenge);
      CHECK(client.read_to_end() == "");
    });
  }

  TEST_CASE("closed: a first frame that claims what was not proven is closed without a word") {
    const CapturedLog log;
    form_in_spite_of([](std::uint16_t port, const std::string& task) {
      const auto closes = [&](const Identity& proven, FrameType type, int rank,
                              std::uint64_t generation, const std::string& payload) {
        RawClient client(port);
        REQUIRE(client.prove(proven));
        FrameHeader header;
        header.type = type;
        header.rank = static_cast<std::uint32_t>(rank);
        header.generation = generation;
        client.send_frame(header, payload);
        CHECK(client.read_to_end() == "");
      };
      Hello hello;
      hello.rank = 1;
      hello.task = "worker/1";
      hello.listens = {"127.0.0.1", 9, ""};
      const std::string json = to_json(hello);
      const Identity other{Purpose::control, 0, "worker/7", task};
      closes(other, FrameType::hello, 1, 0, json);  // another task
      const Identity proven{Purpose::control, 0, "worker/1", task};
      closes(proven, FrameType::hello, 1, 5, json);  // another start
      closes(proven, FrameType::link_hello, 1, 0, std::string(16, 'x'));
      for (const Purpose purpose : {Purpose::link, Purpose::serving, Purpose::agent}) {
        closes({purpose, 0, "worker/1", task}, FrameType::hello, 1, 0, json);
      }
      closes({Purpose::link, 0, "worker/9", task}, FrameType::link_hello, 1, 0,
             std::string(16, 'x'));
    });
    CHECK_FALSE(log.has("refused"));
  }

  TEST_CASE("closed: what is short, slow or long costs the group nothing") {
    form_in_spite_of([](std::uint16_t port, const std::string& task) {
      Proof opens(*test_secret(), Identity{Purpose::control, 0, "worker/1", task});
      const auto opening = opens.give();
      const std::string whole(reinterpret_cast<const char*>(opening.data()), opening.size());
      std::vector<std::unique_ptr<RawClient>> unfinished;
      for (const std::size_t length : {0, 1, 7, 8, 9, 127}) {
        unfinished.push_back(std::make_unique<RawClient>(port));
        unfinished.back()->send(whole.substr(0, length));
      }
      RawClient mute(port);  // one of the job, even, that says nothing more
      REQUIRE(mute.prove({Purpose::control, 0, "worker/1", task}));
      RawClient endless(port);
      endless.send(whole + std::string(1 << 20, 'x'));
      const std::string answer = endless.read_to_end();
      CHECK(answer.size() <= kChallengeBytes);
      RawClient slow(port);
      for (std::size_t i = 0; i < 4; ++i) slow.send(whole.substr(i, 1));
      CHECK(slow.read_to_end() == "");  // its time is over, and its opening is not complete
      for (const auto& each : unfinished) CHECK(each->read_to_end() == "");
      CHECK(mute.read_to_end() == "");
    });
  }

  TEST_CASE("closed: beside as many strangers as may wait, a worker joins within 4 s") {
    for (const bool opens : {false, true}) {
      CAPTURE(opens);
      std::vector<std::unique_ptr<RawClient>> crowd;
      const auto begin = Steady::now();
      form_in_spite_of([&](std::uint16_t port, const std::string& task) {
        for (std::size_t i = 0; i < 2 * max_strangers(); ++i) {
          crowd.push_back(std::make_unique<RawClient>(port));
          Proof proof(*test_secret(8), Identity{Purpose::control, 0, "worker/1", task});
          if (opens) crowd.back()->send(proof.give());
        }
      });
      CHECK(Steady::now() - begin < std::chrono::seconds(4));
    }
  }

  TEST_CASE("closed: two with two secrets do not meet, and the one that connects says why") {
    GroupOptions other = impatient_options();
    other.secret = test_secret(8);
    const auto messages = join_with({impatient_options(), other}, "127.0.0.1");
    CHECK(has(messages[0], "worker/1 did not join"));
    CHECK(has(messages[1], "it holds another secret"));
    CHECK(has(messages[1], "worker/0 at 127.0.0.1:"));
  }

  TEST_CASE("closed: one that encrypts and one that does not, do not meet, and the log says why") {
    GroupOptions insecure = impatient_options();
    insecure.insecure = true;
    for (const bool chief_encrypts : {false, true}) {
      CAPTURE(chief_encrypts);
      const CapturedLog log;
      std::vector<GroupOptions> options = {insecure, impatient_options()};
      if (chief_encrypts) std::swap(options[0], options[1]);
      const auto messages = join_with(options, kNamedLoopback);
      CHECK(has(messages[0], "worker/1 did not join"));
      CHECK(has(messages[1], "without proving that it belongs to this job"));
      CHECK(has(messages[1], "--insecure is given to one of the two alone"));
    }
  }

  TEST_CASE("closed: a chief of another version is named when start_timeout is over") {
    LoopbackListener listener;
    const auto clusters = make_clusters(2, listener);
    const int fd = clusters[0].listener.take();
    std::promise<void> over;
    auto old_chief = std::async(std::launch::async, [&, ended = over.get_future()] {
      FrameHeader header;
      header.type = FrameType::refuse;
      header.version = 2;
      const auto note = encode_frame(header);
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
      std::vector<UniqueFd> guests;
      while (ended.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) {
        const int guest = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
        if (guest < 0) continue;
        guests.emplace_back(guest);
        [[maybe_unused]] const auto sent = ::send(guest, note.data(), note.size(), MSG_NOSIGNAL);
      }
    });
    const auto errors =
        try_ranks(1, [&](int) { WorkerGroup(clusters[1], impatient_options()).join({}); });
    const std::string message = message_of(errors.front());
    over.set_value();
    old_chief.get();
    ::close(fd);
    CAPTURE(message);
    CHECK(has(message, "it speaks version 2 of the protocol, this process version 4"));
  }

  TEST_CASE("closed: neither a Unix socket nor TLS is another door") {
    boost::asio::io_context context;
    std::vector<std::string> seen;
    const auto note = [&](const Introduction& first) {
      seen.push_back(first.from.identity.client);
    };
    const Credentials server = {test_secret(), true, "worker/0", 0};
    const LinkListener by_unix(context, server, note);
    Acceptor by_tls(context, "127.0.0.1", 0);
    by_tls.start(server, note);
    const auto knock = [&](bool tls, const Credentials& mine, const std::string& wanted) {
      const auto to = tls ? StreamSocket::endpoint_type(by_tls.endpoint())
                          : StreamSocket::endpoint_type(local_endpoint_of(by_unix.digits()));
      std::optional<ProvenSocket> made;
      std::string trouble;
      const auto handshake = Handshake::call(
          context, to, {std::chrono::seconds(10), std::chrono::seconds(10)}, mine,
          {Purpose::link, mine.generation, mine.task, wanted},
          [&](ProvenSocket proven) { made.emplace(std::move(proven)); },
          [&](Obstacle, const std::string& why) { trouble = why; });
      const auto limit = Steady::now() + std::chrono::seconds(10);
      const auto work_until = [&](const auto& enough) {
        while (!enough() && Steady::now() < limit) {
          context.run_one_for(std::chrono::milliseconds(100));
        }
      };
      work_until([&] { return made || !trouble.empty(); });
      if (!made) return trouble;
      CHECK((made->tls != nullptr) == tls);
      FrameHeader header;
      header.type = FrameType::link_hello;
      header.rank = 1;
      const auto bytes = encode_frame(header);
      CHECK(send_now(*made, {bytes.data(), bytes.size()}));
      work_until([&] { return !seen.empty(); });
      return std::string();
    };
    for (const bool tls : {false, true}) {
      CAPTURE(tls);
      const std::string silence = "it hangs up without proving that it belongs to this job";
      const Credentials other = {test_secret(8), true, "worker/1", 0};
      CHECK(has(knock(tls, other, "worker/0"), tls ? silence : "it holds another secret"));
      const Credentials right = {test_secret(), true, "worker/1", 0};
      CHECK(has(knock(tls, right, "worker/2"), silence));
      CHECK(seen.empty());
      CHECK(knock(tls, right, "worker/0") == "");
      CHECK(seen == std::vector<std::string>{"worker/1"});
      seen.clear();
    }
  }
}

}  // namespace closed_group_test
