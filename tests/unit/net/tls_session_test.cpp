#include "troupe/distributed/net/tls_session.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/net/tls_relay.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/net/tls_identity.h"

namespace tls_session_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using State = IoResult::State;

std::shared_ptr<const Secret> secret_of(int byte) {
  return std::make_shared<const Secret>(std::vector<std::byte>(32, static_cast<std::byte>(byte)));
}

const Identity kIdentity{Purpose::link, 1795372891144U, "worker/1", "worker/0"};

/// A client and a server with a relay between them.
struct Pair {
  explicit Pair(Identity identity = kIdentity, int client_secret = 1, int buffer_bytes = 0,
                std::uint64_t records_per_key = TlsSession::kRecordsPerKey)
      : relay(buffer_bytes),
        client(TlsSession::client(relay.client(), *secret_of(client_secret), identity,
                                  records_per_key)),
        server(TlsSession::server(relay.server(), secret_of(1), "worker/0", records_per_key)) {}

  /// Until both are complete or one has ended; what the client, then the server came to.
  std::pair<IoResult, IoResult> shake() {
    IoResult one;
    IoResult other;
    for (int turn = 0; turn < 20; ++turn) {
      if (one.state == State::would_block) {
        one = client->handshake();
        said_by_server = relay.to_client.size();
      }
      relay.pump();
      if (other.state == State::would_block) other = server->handshake();
      relay.pump();
      if (one.state == State::closed || other.state == State::closed) break;
    }
    return {one, other};
  }
  void connect() {
    const auto [one, other] = shake();
    REQUIRE(one.state == State::moved);
    REQUIRE(other.state == State::moved);
  }

  Relay relay;
  std::unique_ptr<TlsSession> client;
  std::unique_ptr<TlsSession> server;
  std::size_t said_by_server = 0;  // until the client's handshake was complete
};

std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// One direction of a transfer, in pieces of two spans whose lengths vary.
struct Transfer {
  Transfer(TlsSession& from_in, TlsSession& to_in, std::size_t bytes, unsigned seed)
      : from(from_in), to(to_in), sent(bytes_of(bytes, seed)), got(bytes), random(seed) {}

  void step() {
    if (written < sent.size()) {
      // The same bytes again, where the last call did not move them.
      if (pieces_at != written) split();
      const IoResult result =
          from.write_some({sent.data() + written, first}, {sent.data() + written + first, second});
      REQUIRE(result.state != State::closed);
      written += result.bytes;
    }
    const std::size_t left = got.size() - read;
    const std::size_t one = std::min<std::size_t>(left, random() % 100);
    const std::size_t two = std::min<std::size_t>(left - one, random() % 100'000);
    if (one + two == 0) return;
    const IoResult result = to.read_some({got.data() + read, one}, {got.data() + read + one, two});
    REQUIRE(result.state != State::closed);
    read += result.bytes;
  }
  void split() {
    const std::size_t left = sent.size() - written;
    first = std::min<std::size_t>(left, 1 + random() % 40'000);
    second = std::min<std::size_t>(left - first, random() % 90'000);
    pieces_at = written;
  }
  [[nodiscard]] bool done() const { return read == got.size(); }

  TlsSession& from;
  TlsSession& to;
  std::vector<std::byte> sent;
  std::vector<std::byte> got;
  std::mt19937 random;
  std::size_t written = 0;
  std::size_t read = 0;
  std::size_t pieces_at = std::numeric_limits<std::size_t>::max();
  std::size_t first = 0;
  std::size_t second = 0;
};

/// A message from the client, read by the server, in one piece.
IoResult carry(Pair& pair, const std::vector<std::byte>& message, std::vector<std::byte>& got) {
  REQUIRE(pair.client->write_some(message, {}).bytes == message.size());
  pair.relay.pump();
  got.assign(message.size(), std::byte{0});
  return pair.server->read_some(got, {});
}

bool is_readable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("tls: each end knows who the other is") {
    for (const Purpose purpose :
         {Purpose::control, Purpose::link, Purpose::serving, Purpose::agent}) {
      const std::string longest(kMaxTaskBytes, 'x');
      Pair pair({purpose, std::numeric_limits<std::uint64_t>::max(), longest, "worker/0"});
      pair.connect();
      for (const TlsSession* end : {pair.client.get(), pair.server.get()}) {
        CHECK(end->identity().purpose == purpose);
        CHECK(end->identity().generation == std::numeric_limits<std::uint64_t>::max());
        CHECK(end->identity().client == longest);
        CHECK(end->identity().server == "worker/0");
      }
    }
  }

  TEST_CASE("tls: who listens learns no task's name, nor that two connections are alike") {
    std::set<std::string> sealed;
    for (int i = 0; i < 50; ++i) sealed.insert(seal_identity(*secret_of(1), kIdentity));
    CHECK(sealed.size() == 50);
    for (const std::string& each : sealed) {
      CHECK(each.find("worker") == std::string::npos);
      const auto opened = open_identity(*secret_of(1), each);
      REQUIRE(opened.has_value());
      CHECK(opened->client == kIdentity.client);
      CHECK(opened->server == kIdentity.server);
      CHECK(opened->generation == kIdentity.generation);
      CHECK(opened->purpose == kIdentity.purpose);
      CHECK_FALSE(open_identity(*secret_of(2), each));
      for (std::size_t cut = 0; cut < each.size(); cut += 7) {
        CHECK_FALSE(open_identity(*secret_of(1), each.substr(0, cut)));
      }
    }
    CHECK_FALSE(open_identity(*secret_of(1), std::string(1000, 'A')));
    CHECK_FALSE(open_identity(*secret_of(1), "troupe1/7/2/worker/1>worker/0"));
    Pair pair;
    pair.connect();
    for (const std::string& said : {pair.relay.to_client, pair.relay.to_server}) {
      CHECK(said.size() > 100);
      CHECK(said.find("worker") == std::string::npos);
    }
  }

  TEST_CASE("tls: without the secret nobody gets in, and is told nothing") {
    Pair pair(kIdentity, 2);
    const auto [client, server] = pair.shake();
    CHECK(server.state == State::closed);
    CHECK(client.state == State::would_block);
    CHECK(pair.relay.to_client.empty());
    CHECK(pair.server->handshake().state == State::closed);
    std::byte byte{};
    CHECK(pair.server->read_some({&byte, 1}, {}).state == State::closed);
  }

  TEST_CASE("tls: a server answers only what is addressed to it") {
    Pair pair({Purpose::link, 1, "worker/1", "worker/2"});
    const auto [client, server] = pair.shake();
    CHECK(server.state == State::closed);
    CHECK(pair.relay.to_client.empty());
  }

  TEST_CASE("tls: a process without the secret cannot answer") {
    Relay relay;
    const auto client = TlsSession::client(relay.client(), *secret_of(1), kIdentity);
    const auto server = TlsSession::server(relay.server(), secret_of(2), "worker/0");
    CHECK(client->handshake().state == State::would_block);
    relay.pump();
    CHECK(server->handshake().state == State::closed);
    // Its own words come back to it.
    relay.send_to_client(relay.to_server);
    CHECK(client->handshake().state == State::closed);
  }

  TEST_CASE("tls: a certificate proves nothing") {
    Relay relay;
    const auto client = TlsSession::client(relay.client(), *secret_of(1), kIdentity);
    CertifiedServer server(relay.server());
    IoResult result;
    for (int turn = 0; turn < 20 && result.state == State::would_block; ++turn) {
      result = client->handshake();
      relay.pump();
      server.handshake();
      relay.pump();
    }
    REQUIRE(server.has_answered());
    CHECK(result.state == State::closed);
  }

  TEST_CASE("tls: a connection of before is not accepted again") {
    Pair first;
    first.connect();
    std::vector<std::byte> got;
    REQUIRE(carry(first, bytes_of(100, 1), got).state == State::moved);

    Relay relay;
    const auto server = TlsSession::server(relay.server(), secret_of(1), "worker/0");
    relay.send_to_server(first.relay.to_server);
    IoResult result;
    for (int turn = 0; turn < 20 && result.state == State::would_block; ++turn) {
      result = server->handshake();
    }
    CHECK(result.state == State::closed);
  }

  TEST_CASE("tls: garbage ends the handshake, unanswered") {
    // The last: a record of 8 KiB of a hello that has only begun, which no stranger may send.
    std::string long_hello = {'\x16', '\x03', '\x01', '\x20', '\x00',
                              '\x01', '\x00', '\x40', '\x00'};
    long_hello += std::string(8192, 'x');
    for (const std::string& garbage :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("SSH-2.0-OpenSSH_9.2\r\n"),
          std::string(64, '\0'), std::string("TRUP") + std::string(60, '\0'), long_hello}) {
      Relay relay;
      const auto server = TlsSession::server(relay.server(), secret_of(1), "worker/0");
      relay.send_to_server(garbage);
      CHECK(server->handshake().state == State::closed);
      relay.pump();
      CHECK(relay.to_client.empty());
    }
  }

  TEST_CASE("tls: what the two say is pinned: 1.3, AES-128-GCM, a fresh exchange beside the key") {
    Pair pair;
    pair.connect();
    const Hello client(pair.relay.to_server);
    CHECK(client.suites.front() == 0x1301);
    // Beside it, at most the signal of a client that would renegotiate, which 1.3 has not.
    for (const int suite : client.suites) CHECK(std::set<int>{0x1301, 0x00ff}.count(suite) == 1);
    CHECK(client.extension(43) == std::string("\x02\x03\x04", 3));  // versions: 1.3
    CHECK(client.extension(45) == std::string("\x01\x01", 2));      // psk_dhe_ke alone
    CHECK(client.extensions.count(51) == 1);                        // key_share
    CHECK(client.extensions.count(42) == 0);                        // early_data
    CHECK(client.extensions.count(35) == 0);                        // session_ticket
    const Hello server(pair.relay.to_client);
    CHECK(server.suites == std::vector<int>{0x1301});
    CHECK(server.extension(43) == std::string("\x03\x04", 2));
    CHECK(server.extension(41) == std::string("\x00\x00", 2));  // the first identity's key
    CHECK(server.extensions.count(51) == 1);
    // No tickets: the server, whose handshake is complete after the client's, says no more.
    std::vector<std::byte> got;
    CHECK(carry(pair, bytes_of(100, 1), got).state == State::moved);
    CHECK(pair.relay.to_client.size() == pair.said_by_server);
  }

  TEST_CASE("tls: a server takes no other version, cipher or exchange, even with the key") {
    const auto ends = [](const ClientWishes& wishes) {
      Relay relay;
      const auto server = TlsSession::server(relay.server(), secret_of(1), "worker/0");
      WishingClient client(relay.client(), seal_identity(*secret_of(1), kIdentity),
                           tls_key(*secret_of(1), kIdentity), wishes);
      IoResult result;
      for (int turn = 0; turn < 20 && result.state == State::would_block; ++turn) {
        client.handshake();
        relay.pump();
        result = server->handshake();
        relay.pump();
      }
      return result.state;
    };
    CHECK(ends({}) == State::moved);  // the client that all others differ from
    ClientWishes old;
    old.version = 0x0303;
    CHECK(ends(old) == State::closed);
    ClientWishes other_cipher;
    other_cipher.suites = "TLS_CHACHA20_POLY1305_SHA256";
    CHECK(ends(other_cipher) == State::closed);
    ClientWishes no_exchange;
    no_exchange.groups = "P-384";
    CHECK(ends(no_exchange) == State::closed);
    ClientWishes no_key;
    no_key.psk = false;
    CHECK(ends(no_key) == State::closed);
  }

  TEST_CASE("tls: both ways at once through the smallest buffers") {
    Pair pair(kIdentity, 1, 1);
    pair.connect();
    constexpr std::size_t kBytes = 3'000'000;
    Transfer there(*pair.client, *pair.server, kBytes, 1);
    Transfer back(*pair.server, *pair.client, kBytes, 2);
    for (long turn = 0; turn < 1'000'000 && !(there.done() && back.done()); ++turn) {
      there.step();
      back.step();
      pair.relay.pump();
    }
    CHECK(there.got == there.sent);
    CHECK(back.got == back.sent);
    // What travelled shows nothing of it.
    const std::string piece(reinterpret_cast<const char*>(there.sent.data()) + 5000, 8);
    CHECK(pair.relay.to_server.find(piece) == std::string::npos);
  }

  TEST_CASE("tls: a flipped bit is noticed wherever it is") {
    const auto message = bytes_of(40'000, 3);  // three records
    for (const std::size_t place :
         {0, 1, 3, 4, 5, 6, 700, 16'400, 16'406, 16'407, 16'411, 20'000, 32'812, 40'000, 40'065}) {
      CAPTURE(place);
      Pair pair;
      pair.connect();
      const std::size_t before = pair.relay.to_server.size();
      pair.relay.flip_to_server(before + place);
      std::vector<std::byte> got;
      IoResult result = carry(pair, message, got);
      std::size_t taken = 0;
      while (result.state == State::moved) {
        CHECK(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(result.bytes),
                         message.begin() + static_cast<std::ptrdiff_t>(taken)));
        taken += result.bytes;
        result = pair.server->read_some(got, {});
      }
      CHECK(taken < message.size());
      CHECK(result.state == State::closed);
      CHECK(result.error == EBADMSG);
      CHECK(pair.server->read_some(got, {}).error == EBADMSG);
    }
  }

  TEST_CASE("tls: an end that was meant is told from one that was not") {
    std::byte byte{};
    Pair meant;
    meant.connect();
    meant.client.reset();
    meant.relay.pump();
    const IoResult end = meant.server->read_some({&byte, 1}, {});
    CHECK(end.state == State::closed);
    CHECK(end.error == 0);

    Pair cut;
    cut.connect();
    REQUIRE(cut.client->write_some(bytes_of(100, 1), {}).bytes == 100);
    cut.relay.pump();
    cut.relay.cut_to_server();
    std::vector<std::byte> got(200);
    CHECK(cut.server->read_some(got, {}).bytes == 100);
    const IoResult lost = cut.server->read_some(got, {});
    CHECK(lost.state == State::closed);
    CHECK(lost.error == ECONNRESET);
  }

  TEST_CASE("tls: keys are replaced after so many records") {
    Pair pair(kIdentity, 1, 0, 5);
    pair.connect();
    const std::size_t begin = pair.relay.to_server.size();
    for (unsigned i = 0; i < 23; ++i) {
      const auto message = bytes_of(1'000, i);
      std::vector<std::byte> got;
      REQUIRE(carry(pair, message, got).state == State::moved);
      CHECK(got == message);
    }
    // A KeyUpdate is 5 bytes, a type and a tag of 16; the messages' records are longer.
    std::vector<std::size_t> updates;
    const auto lengths = record_lengths(pair.relay.to_server.substr(begin));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] == 22) updates.push_back(i);
    }
    CHECK(updates == std::vector<std::size_t>{5, 11, 17, 23});
  }

  TEST_CASE("tls: what OpenSSL holds already is pending, a part of a record is not") {
    Pair pair;
    pair.connect();
    CHECK(!pair.server->has_pending());
    const auto message = bytes_of(20'000, 4);
    REQUIRE(pair.client->write_some(message, {}).bytes == message.size());
    pair.relay.pump();
    std::vector<std::byte> got(message.size());
    REQUIRE(pair.server->read_some({got.data(), 1}, {}).bytes == 1);
    CHECK(!is_readable(pair.relay.server()));
    CHECK(pair.server->has_pending());
    REQUIRE(pair.server->read_some({got.data() + 1, got.size() - 1}, {}).bytes == got.size() - 1);
    CHECK(got == message);

    // Half a record: who slept only while nothing is pending would never sleep.
    REQUIRE(pair.client->write_some(message, {}).bytes == message.size());
    pair.relay.pump(1'000);
    CHECK(pair.server->read_some(got, {}).state == State::would_block);
    CHECK(!pair.server->has_pending());
    pair.relay.pump();
    CHECK(pair.server->read_some(got, {}).bytes == got.size());
  }

  TEST_CASE("tls: bytes have moved when the socket has taken them") {
    Pair pair(kIdentity, 1, 1);
    pair.connect();
    CHECK(!pair.client->wants_write());
    const auto message = bytes_of(100'000, 5);
    CHECK(pair.client->write_some(message, {}).state == State::would_block);
    CHECK(pair.client->wants_write());
    std::vector<std::byte> got(message.size());
    std::size_t moved = 0;
    std::size_t read = 0;
    for (int turn = 0; turn < 10'000 && read < got.size(); ++turn) {
      pair.relay.pump();
      const IoResult in = pair.server->read_some({got.data() + read, got.size() - read}, {});
      read += in.bytes;
      if (moved == message.size()) continue;
      const std::size_t left = message.size() - moved;
      moved += pair.client->write_some({message.data() + moved, left}, {}).bytes;
      CHECK(pair.client->wants_write() == (moved < message.size()));
    }
    CHECK(got == message);
  }
}

}  // namespace tls_session_test
