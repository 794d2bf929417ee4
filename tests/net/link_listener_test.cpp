#include "troupe/distributed/net/link_listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>

#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"

namespace link_listener_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using boost::asio::local::stream_protocol;

// Whether the other side has closed by now.
bool is_closed(stream_protocol::socket& socket) {
  char byte = 0;
  const auto got = ::recv(socket.native_handle(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);  // a reset: with bytes it had not read
}

}  // namespace

TEST_SUITE("net") {
  // Guests' handlers are pending, and a second connection's is queued, when the listener goes.
  TEST_CASE("link_listener: what is pending when it goes touches it no more, and is closed") {
    boost::asio::io_context context;
    boost::asio::io_context peers;
    int hellos = 0;
    const Credentials worker = {test_secret(), false, "worker/0", 0};
    auto listener =
        std::make_unique<LinkListener>(context, worker, [&](const Introduction&) { ++hellos; });
    REQUIRE(listener->problem().empty());
    const auto name = local_endpoint_of(listener->digits());
    stream_protocol::socket silent(peers);
    stream_protocol::socket late(peers);
    silent.connect(name);
    late.connect(name);
    REQUIRE(context.run_one_for(std::chrono::seconds(10)) == 1);  // admits one of the two
    SUBCASE("a guest that says something") { silent.send(boost::asio::buffer("hello", 5)); }
    SUBCASE("a guest that is silent") {}
    listener.reset();
    context.poll();
    CHECK(is_closed(silent));
    CHECK(is_closed(late));
    CHECK(hellos == 0);
  }
}

}  // namespace link_listener_test
