#include "net/connection.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using boost::asio::ip::tcp;

/// A connection whose network thread does nothing unless the test lets it, and its peer.
struct BusyEnd {
  boost::asio::io_context context;
  tcp::acceptor acceptor{context, {boost::asio::ip::address_v4::loopback(), 0}};
  RawClient peer{acceptor.local_endpoint().port()};
  std::shared_ptr<Connection> connection = Connection::make(acceptor.accept());

  BusyEnd() {
    connection->start([](const FrameHeader&, const std::vector<std::byte>&) {},
                      [](const std::string&, FrameFault) {});
  }
  void run() {
    context.restart();
    context.poll();
  }
};

FrameHeader header_of(FrameType type) {
  FrameHeader header;
  header.type = type;
  return header;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("connection: while its thread computes, heartbeats follow what was sent before") {
    BusyEnd end;
    end.connection->send(header_of(FrameType::waiting), "whom");
    for (int beat = 0; beat < 3; ++beat)
      end.connection->send_beside(header_of(FrameType::heartbeat));
    CHECK(end.peer.read(4 * kFrameHeaderBytes + 4).size() == 4 * kFrameHeaderBytes + 4);
    end.run();
    CHECK(!end.connection->has_unsent());
  }

  TEST_CASE("connection: while its thread computes, a long frame goes on to one who reads it") {
    constexpr std::size_t kBytes = std::size_t{40} << 20;
    BusyEnd end;
    end.connection->set_limits({kBytes, 0});
    std::vector<std::byte> values(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) values[i] = static_cast<std::byte>(i * 31 >> 8);
    bool is_written = false;
    end.connection->send_bulk(header_of(FrameType::values),
                              std::make_shared<const std::vector<std::byte>>(values),
                              [&] { is_written = true; });
    CHECK(end.connection->has_unsent());

    std::string got;
    std::thread reader([&] { got = end.peer.read(2 * kFrameHeaderBytes + kBytes); });
    const auto beat = [&] {
      end.connection->send_beside(header_of(FrameType::heartbeat));
      return !end.connection->has_unsent();
    };
    CHECK(eventually(beat, std::chrono::seconds(20)));
    reader.join();
    CHECK(!is_written);  // its callback is the network thread's
    end.run();
    CHECK(is_written);
    REQUIRE(got.size() == 2 * kFrameHeaderBytes + kBytes);
    const auto* const sent = reinterpret_cast<const char*>(values.data());
    CHECK(got.compare(kFrameHeaderBytes, kBytes, sent, kBytes) == 0);
    FrameHeader last;
    const auto* const tail =
        reinterpret_cast<const std::byte*>(got.data() + kFrameHeaderBytes + kBytes);
    CHECK(decode_frame({tail, kFrameHeaderBytes}, last) == FrameFault::none);
    CHECK(last.type == FrameType::heartbeat);
  }
}
