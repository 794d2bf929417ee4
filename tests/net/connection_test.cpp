#include "troupe/distributed/net/connection.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/support/eventually.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/unique_fd.h"

namespace connection_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using boost::asio::ip::tcp;

/// A connection whose network thread does nothing unless the test lets it, and its peer.
struct BusyEnd {
  boost::asio::io_context context;
  tcp::acceptor acceptor{context, {boost::asio::ip::address_v4::loopback(), 0}};
  RawClient peer{acceptor.local_endpoint().port()};
  std::shared_ptr<Connection> connection = Connection::make({acceptor.accept(), nullptr, {}});

  BusyEnd() {
    connection->start([](const FrameHeader&, const std::vector<std::byte>&) {},
                      [](const std::string&, FrameFault) {});
  }
  void run() {
    context.restart();
    context.poll();
  }
};

/// Two connected sockets, the first as Asio's.
struct SocketPair {
  explicit SocketPair(boost::asio::io_context& context) : one(context) {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    one.assign(boost::asio::generic::stream_protocol(AF_UNIX, 0), fds[0]);
    other.reset(fds[1]);
  }
  StreamSocket one;
  UniqueFd other;
};

/// A connection with TLS, and the session at its other end.
struct TlsEnd {
  boost::asio::io_context context;
  SocketPair sockets{context};
  std::unique_ptr<TlsSession> peer = TlsSession::client(
      sockets.other.get(), *test_secret(), {Purpose::control, 1, "worker/1", "worker/0"});
  std::shared_ptr<Connection> connection;
  std::vector<std::vector<std::byte>> frames;  // payloads that have come
  std::string closed;                          // why it ended

  /// `early` comes with the last of the handshake.
  explicit TlsEnd(const std::vector<std::byte>& early = {}) {
    using State = IoResult::State;
    auto mine = TlsSession::server(sockets.one.native_handle(), test_secret(), "worker/0");
    CHECK(peer->handshake().state == State::would_block);
    CHECK(mine->handshake().state == State::would_block);
    CHECK(peer->handshake().state == State::moved);
    if (!early.empty()) CHECK(peer->write_some(early, {}).bytes == early.size());
    CHECK(mine->handshake().state == State::moved);
    connection = Connection::make({std::move(sockets.one), std::move(mine), {}});
  }
  void start() {
    connection->start(
        [this](const FrameHeader&, std::vector<std::byte> payload) {
          frames.push_back(std::move(payload));
        },
        [this](const std::string& why, FrameFault) { closed = why; });
  }
  void run() {
    context.restart();
    context.poll();
  }
  /// Writes all of `bytes` while the connection reads.
  void say(const std::vector<std::byte>& bytes) {
    for (std::size_t at = 0; at < bytes.size(); run()) {
      const IoResult result = peer->write_some({bytes.data() + at, bytes.size() - at}, {});
      REQUIRE(result.state != IoResult::State::closed);
      at += result.bytes;
    }
    run();
  }
};

std::vector<std::byte> frame_of(FrameHeader header, const std::vector<std::byte>& payload) {
  header.payload_bytes = payload.size();
  const auto head = encode_frame(header);
  std::vector<std::byte> frame(head.begin(), head.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

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
    CHECK(eventually(beat));
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

  TEST_CASE("connection: over TLS a frame that came with the handshake is read") {
    TlsEnd end(frame_of(header_of(FrameType::heartbeat), {}));
    end.start();
    end.run();
    CHECK(end.frames.size() == 1);
    CHECK(end.connection->received_bytes() == kFrameHeaderBytes);
  }

  TEST_CASE("connection: over TLS long frames come whole, and show that they are coming") {
    constexpr std::size_t kBytes = std::size_t{5} << 20;
    TlsEnd end;
    end.connection->set_limits({kBytes, 0});
    end.start();
    std::vector<std::byte> values(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) values[i] = static_cast<std::byte>(i * 31 >> 8);
    const auto frame = frame_of(header_of(FrameType::values), values);
    const auto middle = frame.begin() + kBytes / 2;
    end.say({frame.begin(), middle});
    CHECK(end.frames.empty());
    CHECK(end.connection->received_bytes() == kBytes / 2);
    end.say({middle, frame.end()});
    REQUIRE(end.frames.size() == 1);
    CHECK(end.frames.front() == values);
    CHECK(end.closed.empty());
  }

  TEST_CASE("connection: over TLS heartbeats follow a long frame while its thread computes") {
    constexpr std::size_t kBytes = std::size_t{5} << 20;
    TlsEnd end;
    end.connection->set_limits({kBytes, 0});
    end.start();
    const std::vector<std::byte> values(kBytes, std::byte{3});
    end.connection->send_bulk(header_of(FrameType::values),
                              std::make_shared<const std::vector<std::byte>>(values));
    std::vector<std::byte> got(2 * kFrameHeaderBytes + kBytes);
    std::size_t read = 0;
    const auto beat_and_read = [&] {
      if (end.connection->has_unsent()) {
        end.connection->send_beside(header_of(FrameType::heartbeat));
      }
      read += end.peer->read_some({got.data() + read, got.size() - read}, {}).bytes;
      return read == got.size();
    };
    CHECK(eventually(beat_and_read));
    FrameHeader last;
    CHECK(decode_frame({got.data() + kFrameHeaderBytes + kBytes, kFrameHeaderBytes}, last) ==
          FrameFault::none);
    CHECK(last.type == FrameType::heartbeat);
  }

  TEST_CASE("connection: over TLS what nobody sent ends it, and so does a cut") {
    TlsEnd damaged;
    damaged.start();
    // A record that the session did not seal.
    const std::string record = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
    REQUIRE(::send(damaged.sockets.other.get(), record.data(), record.size(), 0) == 37);
    damaged.run();
    CHECK(damaged.closed == "what came is not what the other end sent: it was changed on the way");
    CHECK(damaged.frames.empty());

    TlsEnd cut;
    cut.start();
    REQUIRE(::shutdown(cut.sockets.other.get(), SHUT_WR) == 0);
    cut.run();
    CHECK(cut.closed == "Connection reset by peer");

    TlsEnd meant;
    meant.start();
    meant.peer.reset();
    meant.run();
    CHECK(meant.closed == "connection closed");
  }
}

}  // namespace connection_test
