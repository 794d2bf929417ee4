#include "troupe/distributed/membership/link_maker.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/caught.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/proof.h"

namespace link_maker_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using Clock = std::chrono::steady_clock;

constexpr std::size_t kHelloBytes = kFrameHeaderBytes + 16;

// One worker's LinkMaker with what it needs.
struct Maker final : ControlPlane {
  Maker(const Cluster& cluster, Transport transport, boost::asio::io_context& context)
      : state(cluster, by(transport)), links(state, context, *this, [this] { done = true; }) {}
  void join() override {}
  void report(const Failure& told) override { failure = told; }
  void suspect(int peer, const std::string& what) override { lost[peer] = what; }
  void goodbye(const Deadline& /*limit*/) override {}
  static GroupOptions by(Transport transport) {
    GroupOptions options = test_options();
    options.transport = transport;
    options.heartbeat_timeout = std::chrono::milliseconds(300);
    return options;
  }
  GroupState state;
  bool done = false;
  std::optional<Failure> failure;
  std::map<int, std::string> lost;
  LinkMaker links;
};

// Rank 1 connects to the test, which passes on to rank 0 what it likes.
class Between {
 public:
  explicit Between(int world_size = 2, Transport transport = Transport::tcp) {
    LoopbackListener listener;
    const std::uint16_t port = listener.port();
    const auto clusters = make_clusters(world_size, listener);
    listen_fd_ = clusters[0].listener.take();
    lower = std::make_unique<Maker>(clusters[0], transport, context);
    higher = std::make_unique<Maker>(clusters[1], transport, context);
    welcome.session.fill(std::byte{7});
    welcome.endpoints.assign(static_cast<std::size_t>(world_size), {"127.0.0.1", 9, ""});
    welcome.endpoints[0].port = port;
  }
  ~Between() { ::close(listen_fd_); }
  Between(const Between&) = delete;
  Between& operator=(const Between&) = delete;

  /// Lets both work until `enough`; whether it came to that.
  template <class Enough>
  bool run_until(const Enough& enough) {
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (!enough() && Clock::now() < limit) {
      context.restart();
      context.run_for(std::chrono::milliseconds(5));
    }
    return enough();
  }
  /// The next connection of rank 1, which is met as rank 0 would.
  int accept() {
    pollfd wait{listen_fd_, POLLIN, 0};
    REQUIRE(run_until([&] { return ::poll(&wait, 1, 0) == 1; }));
    const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    Proof proof(*test_secret(), "worker/0");
    while (proof.state() == Proof::State::going) {
      const std::string bytes = read(fd, proof.awaited());
      proof.take({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
      const auto answer = proof.give();
      [[maybe_unused]] const auto sent = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    REQUIRE(proof.state() == Proof::State::proven);
    CHECK(proof.identity().purpose == Purpose::link);
    CHECK(proof.identity().client == "worker/1");
    return fd;
  }
  /// Whether rank 1 has connected by TCP.
  [[nodiscard]] bool is_knocked() const {
    pollfd wait{listen_fd_, POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  }
  /// Exactly `bytes` bytes that come by `fd`.
  std::string read(int fd, std::size_t bytes) {
    std::string all(bytes, '\0');
    const auto is_there = [&] {
      return ::recv(fd, all.data(), bytes, MSG_PEEK | MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
    };
    REQUIRE(run_until(is_there));
    [[maybe_unused]] const auto got = ::recv(fd, all.data(), bytes, 0);
    return all;
  }
  /// `hello`, which came by `fd`, reaches rank 0 by `fd`, from who has proven to be `client`.
  void pass_on(int fd, const std::string& hello, const std::string& client = "worker/1") {
    Introduction parsed{{StreamSocket(context), nullptr, {}}, {}, {}, {}};
    parsed.from.socket.assign({socket_family(fd), 0}, fd);
    parsed.from.identity = {Purpose::link, 0, client, "worker/0"};
    const auto* const bytes = reinterpret_cast<const std::byte*>(hello.data());
    REQUIRE(decode_frame({bytes, kFrameHeaderBytes}, parsed.header) == FrameFault::none);
    parsed.payload.assign(bytes + kFrameHeaderBytes, bytes + kHelloBytes);
    lower->links.take(std::move(parsed));
  }
  static int socket_family(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    return address.ss_family;
  }

  boost::asio::io_context context;
  std::unique_ptr<Maker> lower;
  std::unique_ptr<Maker> higher;
  Welcome welcome;

 private:
  int listen_fd_ = -1;
};

int only_socket(Maker& maker) {
  const auto& links = maker.state.joined.links;
  REQUIRE(links.size() == 1);
  return links.begin()->second.fd();
}

bool is_closed(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

// A process of another user that listens where rank 0 is said to; what it hears it writes.
class Squatter {
 public:
  explicit Squatter(const std::string& digits) {
    std::array<int, 2> ready{};
    REQUIRE((::pipe(heard_.data()) == 0 && ::pipe(ready.data()) == 0));
    pid_ = ::fork();
    if (pid_ == 0) listen_as_nobody(digits, ready[1]);
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    for (const int fd : {heard_[1], ready[0], ready[1]}) ::close(fd);
  }
  /// Ends it; what it has heard.
  [[nodiscard]] std::string end() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::string all(64, '\0');
    all.resize(static_cast<std::size_t>(::read(heard_[0], all.data(), all.size())));
    ::close(heard_[0]);
    return all;
  }

 private:
  [[noreturn]] void listen_as_nobody(const std::string& digits, int ready) const {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    const auto name = local_endpoint_of(digits);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(fd, name.data(), static_cast<socklen_t>(name.size())) != 0) ::_exit(1);
    ::listen(fd, 8);
    (void)!::write(ready, "r", 1);
    for (;;) {
      const int guest = ::accept(fd, nullptr, nullptr);
      char bytes[64];
      const auto got = ::read(guest, bytes, sizeof(bytes));
      if (got > 0) (void)!::write(heard_[1], bytes, static_cast<std::size_t>(got));
    }
  }
  std::array<int, 2> heard_{};
  pid_t pid_ = -1;
};

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("link_maker: a handshake that the peer gave up is no link, the next one is") {
    Between between;
    between.lower->links.begin(between.welcome);
    between.higher->links.begin(between.welcome);
    const int first = between.accept();
    const std::string hello = between.read(first, kHelloBytes);
    // Rank 0 hears the first hello, but its answer does not come back in time.
    std::array<int, 2> detour{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, detour.data()) == 0);
    between.pass_on(detour[0], hello);
    between.read(detour[1], kFrameHeaderBytes);
    const int second = between.accept();
    CHECK_FALSE(between.lower->done);
    CHECK_FALSE(between.higher->done);
    between.pass_on(second, between.read(second, kHelloBytes));
    CHECK(between.run_until([&] { return between.lower->done && between.higher->done; }));

    const int low = only_socket(*between.lower);
    const int high = only_socket(*between.higher);
    CHECK(::send(high, "sum", 3, MSG_NOSIGNAL) == 3);
    CHECK(between.read(low, 3) == "sum");
    CHECK(is_closed(detour[1]));  // nobody keeps the one given up
    for (const int fd : {first, detour[1]}) ::close(fd);
  }

  TEST_CASE("link_maker: a link whose last word is lost is missed, unless it is made again") {
    for (const bool again : {true, false}) {
      CAPTURE(again);
      Between between;
      between.lower->links.begin(between.welcome);
      between.higher->links.begin(between.welcome);
      const int first = between.accept();
      const std::string hello = between.read(first, kHelloBytes);
      std::array<int, 2> detour{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, detour.data()) == 0);
      between.pass_on(detour[0], hello);
      between.read(detour[1], kFrameHeaderBytes);  // rank 0 says yes
      ::close(detour[1]);                          // and hears nothing
      if (again) {
        const int second = between.accept();
        between.pass_on(second, between.read(second, kHelloBytes));
        CHECK(between.run_until([&] { return between.lower->done && between.higher->done; }));
        CHECK(between.lower->lost.empty());
      } else {
        CHECK(between.run_until([&] { return !between.lower->lost.empty(); }));
        CHECK(between.lower->lost.count(1) == 1);
      }
      ::close(first);
    }
  }

  TEST_CASE("link_maker: who claims another rank than it has proven makes no link") {
    Between between(3);
    between.lower->links.begin(between.welcome);
    between.higher->links.begin(between.welcome);
    const int first = between.accept();
    const std::string hello = between.read(first, kHelloBytes);
    for (const std::string client : {"worker/2", "worker/0", "worker/1"}) {
      CAPTURE(client);
      std::array<int, 2> ends{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
      between.pass_on(ends[0], hello, client);
      CHECK(is_closed(ends[1]) == (client != "worker/1"));
      ::close(ends[1]);
    }
    ::close(first);
  }

  TEST_CASE("link_maker: a process of another user ends it, and is not met by TCP instead") {
    if (::geteuid() != 0) {
      MESSAGE("needs root, to be another user for once");
      return;
    }
    const std::string digits = "0123456789abcdef";
    for (const Transport transport :
         {Transport::automatic, Transport::unix_socket, Transport::shared_memory}) {
      CAPTURE(std::string(name_of(transport)));
      Squatter squatter(digits);
      Between between(2, transport);
      between.welcome.endpoints[0].local = digits;
      between.higher->links.begin(between.welcome);
      CHECK(between.run_until([&] { return between.higher->failure.has_value(); }));
      CHECK(squatter.end() == "");  // not one byte
      REQUIRE(between.higher->failure);
      CHECK(between.higher->failure->kind == FailureKind::config);
      CHECK(has(between.higher->failure->cause, "there belongs to user 65534"));
      CHECK(has(between.higher->failure->fix, "--transport tcp"));
      CHECK_FALSE(between.is_knocked());
    }
  }

  TEST_CASE("link_maker: without a Unix socket a worker is met by TCP, and unix says why not") {
    for (const char* digits : {"", "0123456789abcdef"}) {
      CAPTURE(std::string(digits));
      const std::string why = *digits == '\0' ? "it does not listen at one" : "Connection refused";
      Between by_tcp(2, Transport::automatic);
      by_tcp.welcome.endpoints[0].local = digits;
      by_tcp.lower->links.begin(by_tcp.welcome);
      by_tcp.higher->links.begin(by_tcp.welcome);
      const int fd = by_tcp.accept();
      by_tcp.pass_on(fd, by_tcp.read(fd, kHelloBytes));
      CHECK(by_tcp.run_until([&] { return by_tcp.higher->done; }));
      CHECK(has(by_tcp.higher->state.joined.no_unix, why));

      Between refused(2, Transport::unix_socket);
      refused.welcome.endpoints[0].local = digits;
      refused.higher->links.begin(refused.welcome);
      CHECK(refused.run_until([&] { return refused.higher->failure.has_value(); }));
      REQUIRE(refused.higher->failure);
      CHECK(has(refused.higher->failure->cause,
                "no Unix socket leads from worker/1 to worker/0: " + why));
    }
  }
}

}  // namespace link_maker_test
