#include "net/link_listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>

#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"

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
    const LoopbackListener port;
    const boost::asio::ip::tcp::endpoint beside(boost::asio::ip::make_address("127.0.0.1"),
                                                port.port());
    boost::asio::io_context context;
    boost::asio::io_context peers;
    int hellos = 0;
    auto listener =
        std::make_unique<LinkListener>(context, beside, [&](const LinkHello&) { ++hellos; });
    REQUIRE(listener->problem().empty());
    stream_protocol::socket silent(peers);
    stream_protocol::socket late(peers);
    silent.connect(local_endpoint_of(beside));
    late.connect(local_endpoint_of(beside));
    REQUIRE(context.run_one_for(std::chrono::seconds(10)) == 1);  // admits the first
    SUBCASE("a guest that says something") { silent.send(boost::asio::buffer("hello", 5)); }
    SUBCASE("a guest that is silent") {}
    listener.reset();
    context.poll();
    CHECK(is_closed(silent));
    CHECK(is_closed(late));
    CHECK(hellos == 0);
  }
}
