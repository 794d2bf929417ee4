#include "troupe/distributed/elastic/round_line.h"

#include <poll.h>
#include <sys/socket.h>

#include <future>

#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace round_line_test {

namespace {

using namespace std::chrono_literals;
using troupe::Readiness;
using troupe::RendezvousMessage;
using troupe::Round;
using troupe::RoundLine;
using troupe::UniqueFd;
using troupe::WorkerMessage;

/// A worker's line, and the rendezvous's end of it.
struct Ends {
  Ends() {
    int both[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
    rendezvous = UniqueFd(both[0]);
    line.emplace(UniqueFd(both[1]));
  }
  void send(const std::string& bytes) const {
    CHECK(::send(rendezvous.get(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
  }
  void send(const RendezvousMessage& message) const { send(to_json(message)); }
  /// What the worker says next, within a limit.
  [[nodiscard]] std::optional<WorkerMessage> receive() const {
    pollfd readable{rendezvous.get(), POLLIN, 0};
    if (poll(&readable, 1, 10'000) != 1) return std::nullopt;
    std::vector<std::byte> buffer(troupe::kMaxRoundMessageBytes);
    const ssize_t count = recv(rendezvous.get(), buffer.data(), buffer.size(), 0);
    if (count <= 0) return std::nullopt;
    return troupe::worker_message_from({buffer.data(), static_cast<std::size_t>(count)});
  }
  template <class Message>
  [[nodiscard]] bool receives() const {
    const auto message = receive();
    return message && std::holds_alternative<Message>(*message);
  }

  UniqueFd rendezvous;
  std::optional<RoundLine> line;
};

const Readiness kReady{1, true, false, 7, "worker/0", "gone.", ""};

/// What next() does, by its error's kind and exit code; "": it says that training is over.
std::string end_of(Ends& ends) {
  try {
    return ends.line->next(kReady) ? "a round" : "";
  } catch (const troupe::Error& error) {
    return std::string(error.kind()) + " " + std::to_string(error.exit_code()) + " " +
           error.cause();
  }
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("round_line: a ping is answered whatever the worker does") {
    Ends ends;  // this thread computes
    for (int i = 0; i < 3; ++i) {
      ends.send(troupe::Ping{});
      CHECK(ends.receives<troupe::Pong>());
    }
    ends.line->started();
    CHECK(ends.receives<troupe::Started>());
  }

  TEST_CASE("round_line: next says that the worker is ready, and returns the round") {
    Ends ends;
    auto next = std::async(std::launch::async, [&] { return ends.line->next(kReady); });
    CHECK(std::get<Readiness>(ends.receive().value()).lost == "worker/0");
    ends.send(troupe::Ping{});  // one that waits lives, too
    CHECK(ends.receives<troupe::Pong>());
    ends.send(Round{2, 5, 0, {{"worker/1", {"127.0.0.1", 1000}, true}}});
    const auto round = next.get();
    REQUIRE(round);
    CHECK(round->number == 2);
    CHECK(round->members[0].task == "worker/1");
    // Each round is returned once.
    auto after = std::async(std::launch::async, [&] { return ends.line->next(kReady); });
    CHECK(ends.receives<Readiness>());
    CHECK(after.wait_for(50ms) == std::future_status::timeout);
    ends.send(Round{3, 6, 0, {{"worker/1", {"127.0.0.1", 1000}, true}}});
    CHECK(after.get()->number == 3);
  }

  TEST_CASE("round_line: whether others wait is known when a round begins") {
    Ends ends;
    CHECK_FALSE(ends.line->joiners_wait());
    ends.send(troupe::Waiting{2});
    CHECK(troupe::testing::eventually([&] { return ends.line->joiners_wait(); }));
    ends.send(troupe::Waiting{0});
    ends.send(Round{2, 5, 0, {{"worker/1", {"127.0.0.1", 1000}, true}}});
    CHECK(ends.line->next(kReady));
    CHECK_FALSE(ends.line->joiners_wait());
  }

  TEST_CASE("round_line: one that was told to end asks once, and learns how") {
    Ends ends;
    CHECK_FALSE(ends.line->departure());
    ends.line->ask_to_leave();
    ends.line->ask_to_leave();
    CHECK(ends.receives<troupe::LeaveRequest>());
    ends.send(troupe::Departure{true, "", ""});
    CHECK(troupe::testing::eventually([&] { return ends.line->departure().has_value(); }));
    CHECK(ends.line->departure()->is_alone);
    ends.line->leave({3, true, false, 7, "", "", "", true});
    const auto left = ends.receive();  // and no second request
    REQUIRE(left);
    CHECK(std::get<Readiness>(*left).leaves);
  }

  TEST_CASE("round_line: the end is told by its exit code") {
    const std::pair<int, const char*> ways[] = {
        {0, ""}, {1, "peer-failed 1 why."}, {138, "peer-lost 138 why."}, {143, "stopped 143 why."}};
    for (const auto& [code, expected] : ways) {
      Ends ends;
      ends.send(troupe::EndOfRounds{code, "why.", "do."});
      CHECK(end_of(ends) == expected);
      ends.rendezvous.reset();
      CHECK(end_of(ends) == expected);  // it stays so
    }
  }

  TEST_CASE("round_line: a rendezvous that is gone, or talks nonsense, ends the wait") {
    Ends gone;
    auto next = std::async(std::launch::async, [&] { return end_of(gone); });
    CHECK(gone.receives<Readiness>());
    gone.rendezvous.reset();
    CHECK(next.get() == "peer-lost 138 the launcher is gone: its line to this worker closed.");
    for (const std::string& wrong : {std::string("{}"), std::string(70'000, ' ')}) {
      Ends ends;
      ends.send(wrong);
      CHECK(end_of(ends) == "peer-lost 138 the launcher sent this worker what is no message.");
    }
  }

  TEST_CASE("round_line: a worker's end is seen, and its destructor waits for nobody") {
    Ends ends;
    ends.line.reset();
    CHECK_FALSE(ends.receive());
  }

  TEST_CASE("round_line: another descriptor is refused") {
    int both[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
    const UniqueFd other(both[0]);
    CHECK_THROWS_AS(RoundLine(UniqueFd(both[1])), troupe::EnvironmentError);
  }
}

}  // namespace round_line_test
