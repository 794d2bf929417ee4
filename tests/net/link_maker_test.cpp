#include "distributed/membership/link_maker.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "net/frame.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using Clock = std::chrono::steady_clock;

constexpr std::size_t kHelloBytes = kFrameHeaderBytes + 16;

// One worker's LinkMaker with what it needs.
struct Maker {
  Maker(const Cluster& cluster, const GroupOptions& options, boost::asio::io_context& context)
      : state(cluster, options),
        links(
            state, context, [this] { done = true; }, [](const Failure&) {}) {}
  GroupState state;
  bool done = false;
  LinkMaker links;
};

// Rank 1 connects to the test, which passes on to rank 0 what it likes.
class Between {
 public:
  Between() {
    LoopbackListener listener;
    const std::uint16_t port = listener.port();
    const auto clusters = make_clusters(2, listener);
    listen_fd_ = clusters[0].listener.take();
    GroupOptions options = test_options();
    options.transport = Transport::tcp;
    lower = std::make_unique<Maker>(clusters[0], options, context);
    higher = std::make_unique<Maker>(clusters[1], options, context);
    Welcome welcome;
    welcome.session.fill(std::byte{7});
    welcome.endpoints = {{"127.0.0.1", port}, {"127.0.0.1", 9}};
    lower->links.begin(welcome);
    higher->links.begin(welcome);
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
  /// The next connection of rank 1.
  int accept() {
    pollfd wait{listen_fd_, POLLIN, 0};
    REQUIRE(run_until([&] { return ::poll(&wait, 1, 0) == 1; }));
    return ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
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
  /// `hello`, which came by `fd`, reaches rank 0 by `fd`.
  void pass_on(int fd, const std::string& hello) {
    LinkHello parsed{LinkSocket(context), {}, {}, {}};
    parsed.socket.assign({socket_family(fd), 0}, fd);
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

 private:
  int listen_fd_ = -1;
};

int only_socket(Maker& maker) {
  JoinedLinks links = maker.state.take_links();
  REQUIRE(links.sockets.size() == 1);
  return links.sockets[0].fd.release();
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("link_maker: a handshake that the peer gave up is no link, the next one is") {
    Between between;
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
    char byte = 0;
    CHECK(::recv(detour[1], &byte, 1, MSG_DONTWAIT) == 0);  // nobody keeps the one given up
    for (const int fd : {first, detour[1], low, high}) ::close(fd);
  }
}
