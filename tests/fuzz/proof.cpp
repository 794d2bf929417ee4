// What a stranger sends: the proof of both ends, TLS, and the first frame behind them.
#include "troupe/distributed/net/proof.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <optional>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "troupe/core/checksum.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/strangers.h"
#include "troupe/distributed/net/tls_session.h"

namespace troupe::fuzz::proof_target {
namespace {

enum Kind : unsigned char { opening, challenge, tampered, stranger, first_frame, tls };
constexpr unsigned kKinds = tls + 1;
constexpr const char* kTask = "worker/0";
constexpr std::uint64_t kGeneration = 7;

std::shared_ptr<const Secret> secret() {
  static const auto made =
      std::make_shared<const Secret>(std::vector<std::byte>(Secret::kMinBytes, std::byte{7}));
  return made;
}

Identity identity(Purpose purpose = Purpose::control) {
  return {purpose, kGeneration, "worker/1", kTask};
}

/// Everything of `input` that is awaited, message by message. Returns how much that was.
std::size_t feed(Proof& proof, std::string_view input) {
  std::size_t taken = 0;
  while (proof.awaited() > 0 && input.size() - taken >= proof.awaited()) {
    const std::size_t next = proof.awaited();
    proof.take(bytes_of(input.substr(taken, next)));
    taken += next;
  }
  FUZZ_REQUIRE(taken <= kOpeningBytes + kClosingProofBytes);
  return taken;
}

/// Nothing that was written beforehand proves anything: the other end's nonce is new.
bool run_opening(std::string_view input) {
  Proof server(*secret(), kTask);
  feed(server, input);
  const std::size_t said = server.give().size();
  FUZZ_REQUIRE(server.state() != Proof::State::proven);
  FUZZ_REQUIRE(server.has_opened()
                   ? said == kChallengeBytes
                   : said == 0 || said == kVersionNoteBytes || input.size() > kOpeningBytes);
  return server.has_opened();
}

bool run_challenge(std::string_view input) {
  Proof client(*secret(), identity());
  FUZZ_REQUIRE(client.give().size() == kOpeningBytes);
  const std::size_t taken = feed(client, input);
  FUZZ_REQUIRE(client.state() != Proof::State::proven);
  FUZZ_REQUIRE((client.state() == Proof::State::refused) == !client.why().empty());
  FUZZ_REQUIRE(client.give().empty());
  return taken > kProofPrefixBytes;
}

/// Changes one byte of all that both ends say.
class Wire {
 public:
  Wire(std::size_t at, unsigned char mask) : at_(at), mask_(mask) {}
  /// Whether anything was said.
  bool carry(Proof& from, Proof& to) {
    std::string bytes = text_of(Span<const std::byte>(from.give()));
    if (at_ >= carried_ && at_ < carried_ + bytes.size() && mask_ != 0) {
      bytes[at_ - carried_] = static_cast<char>(bytes[at_ - carried_] ^ mask_);
      changed_ = true;
    }
    carried_ += bytes.size();
    feed(to, bytes);
    return !bytes.empty();
  }
  [[nodiscard]] bool changed() const { return changed_; }

 private:
  const std::size_t at_;
  const unsigned char mask_;
  std::size_t carried_ = 0;
  bool changed_ = false;
};

std::string task_from(Values& values) {
  std::string task = values.text().substr(0, kMaxTaskBytes);
  for (char& c : task) c = static_cast<char>(' ' + static_cast<unsigned char>(c) % 95);
  return task.empty() ? "worker/1" : task;
}

/// Both ends prove themselves, unless a byte of what they say is changed: then the server knows.
void check_exchange(const Identity& wanted, Wire wire) {
  Proof client(*secret(), wanted);
  Proof server(*secret(), wanted.server);
  while (wire.carry(client, server) || wire.carry(server, client)) continue;
  const bool proven = server.state() == Proof::State::proven;
  FUZZ_REQUIRE(proven == !wire.changed());
  if (!proven) return;
  const Identity& known = server.identity();
  FUZZ_REQUIRE(client.state() == Proof::State::proven);
  FUZZ_REQUIRE(known.purpose == wanted.purpose && known.generation == wanted.generation);
  FUZZ_REQUIRE(known.client == wanted.client && known.server == wanted.server);
}

bool run_tampered(std::string_view input) {
  Values values(input);
  const std::size_t at =
      values.number<std::uint16_t>() % (kOpeningBytes + kChallengeBytes + kClosingProofBytes);
  const auto mask = values.number<unsigned char>();
  Identity wanted;
  wanted.purpose = static_cast<Purpose>(1 + values.below_or(3));
  wanted.generation = values.number<std::uint64_t>();
  wanted.client = task_from(values);
  wanted.server = task_from(values);
  check_exchange(wanted, Wire(at, 0));
  if (mask != 0) check_exchange(wanted, Wire(at, mask));
  return true;
}

/// Two connected sockets, neither of which waits.
class Pair {
 public:
  Pair() {
    FUZZ_REQUIRE(
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_.data()) == 0);
  }
  ~Pair() {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  [[nodiscard]] int ours() const { return ends_[0]; }
  [[nodiscard]] int take_ours() { return std::exchange(ends_[0], -1); }
  void send(std::string_view bytes) const {
    // The other end may have closed; what does not fit into the socket is not needed.
    [[maybe_unused]] const auto sent = ::send(ends_[1], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void hang_up() const { ::shutdown(ends_[1], SHUT_WR); }
  [[nodiscard]] std::string answer() const {
    std::string bytes(65536, '\0');
    const auto got = ::recv(ends_[1], bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// A door with one stranger in it.
struct Doorstep {
  Doorstep() {
    StreamSocket socket(context);
    socket.assign(boost::asio::generic::stream_protocol(AF_UNIX, SOCK_STREAM), pair.take_ours());
    socket.non_blocking(true);
    strangers.admit(std::move(socket));
  }
  /// What the stranger was told until it was shown out, which hanging up makes happen at once.
  std::string finish() {
    pair.hang_up();
    context.restart();
    context.run_for(std::chrono::seconds(1));
    FUZZ_REQUIRE(context.stopped());
    return pair.answer();
  }

  Pair pair;
  boost::asio::io_context context;
  std::optional<Introduction> introduction;
  Strangers strangers{context.get_executor(), Credentials{secret(), false, kTask, kGeneration},
                      [this](Introduction first) { introduction.emplace(std::move(first)); }};
};

bool run_stranger(std::string_view input) {
  Doorstep door;
  door.pair.send(input);
  const std::size_t told = door.finish().size();
  FUZZ_REQUIRE(!door.introduction);
  FUZZ_REQUIRE(told == 0 || told == kVersionNoteBytes || told == kChallengeBytes);
  return told == kChallengeBytes;
}

/// The frame in which a header is as it should be but for what `input` says.
std::string frame_from(std::string_view input, std::string_view payload) {
  std::string bytes(input.substr(0, kFrameHeaderBytes));
  bytes.resize(kFrameHeaderBytes);
  const auto put = [&bytes](std::size_t at, auto value) {
    bytes.replace(at, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(0, kFrameMagic);
  put(4, kProtocolVersion);
  put(kFrameHeaderBytes - 4, checksum_of(bytes_of(bytes).subspan(0, kFrameHeaderBytes - 4)));
  return bytes.append(payload);
}

/// Whether a door has to let this in, by the documentation.
bool introduces(std::string_view frame, const Identity& proven) {
  FrameHeader header;
  if (decode_frame(bytes_of(frame.substr(0, kFrameHeaderBytes)), header) != FrameFault::none)
    return false;
  const auto wanted = proven.purpose == Purpose::link ? FrameType::link_hello : FrameType::hello;
  const std::string_view payload = frame.substr(kFrameHeaderBytes);
  return header.type == wanted && header.generation == proven.generation &&
         header.payload_bytes <= payload.size() &&
         header.payload_checksum == checksum_of(bytes_of(payload.substr(0, header.payload_bytes)));
}

/// Somebody who has proven who he is, and then sends anything.
bool run_first_frame(std::string_view input) {
  Values values(input);
  const Identity proven = identity(static_cast<Purpose>(1 + values.number<unsigned char>() % 4));
  const std::string_view header = values.rest().substr(0, kFrameHeaderBytes);
  const std::string frame = frame_from(header, values.rest().substr(header.size()));
  Doorstep door;
  Proof client(*secret(), proven);
  door.pair.send(text_of(Span<const std::byte>(client.give())));
  door.context.poll();
  feed(client, door.pair.answer());
  FUZZ_REQUIRE(client.state() == Proof::State::proven);
  door.pair.send(text_of(Span<const std::byte>(client.give())) + frame);
  FUZZ_REQUIRE(door.finish().empty());
  FUZZ_REQUIRE(door.introduction.has_value() == introduces(frame, proven));
  if (!door.introduction) return false;
  FUZZ_REQUIRE(door.introduction->fault == FrameFault::none);
  FUZZ_REQUIRE(door.introduction->from.identity.client == proven.client);
  FUZZ_REQUIRE(text_of(Span<const std::byte>(door.introduction->payload)) ==
               frame.substr(kFrameHeaderBytes, door.introduction->payload.size()));
  return true;
}

/// Who does not hold the secret is told nothing, and what an earlier client said proves nothing.
bool run_tls(std::string_view input) {
  const Pair pair;
  const auto server = TlsSession::server(pair.ours(), secret(), kTask);
  pair.send(input);
  const IoResult first = server->handshake();
  const std::string told = pair.answer();
  FUZZ_REQUIRE(first.state != IoResult::State::moved);
  FUZZ_REQUIRE(first.state != IoResult::State::closed || told.empty());
  pair.hang_up();
  FUZZ_REQUIRE(server->handshake().state == IoResult::State::closed);
  return !told.empty();
}

std::string client_hello() {
  const Pair pair;
  const auto client = TlsSession::client(pair.ours(), *secret(), identity());
  FUZZ_REQUIRE(client->handshake().state == IoResult::State::would_block);
  return pair.answer();
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

std::string hello_frame(FrameType type, const std::string& payload) {
  FrameHeader header;
  header.type = type;
  header.rank = 1;
  header.generation = kGeneration;
  header.payload_bytes = payload.size();
  header.payload_checksum = checksum_of(bytes_of(payload));
  const auto encoded = encode_frame(header);
  return text_of({encoded.data(), encoded.size()}) + payload;
}

}  // namespace

std::vector<std::string> seeds() {
  Proof client(*secret(), identity());
  const std::string opened = text_of(Span<const std::byte>(client.give()));
  Proof server(*secret(), kTask);
  feed(server, opened);
  const std::string answered = text_of(Span<const std::byte>(server.give()));
  // A bit of the last code.
  const std::string last("\xe6\0\1\1\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\2\0ab", 23);
  return {seed(opening, opened),
          seed(challenge, answered),
          seed(tampered, last),
          seed(stranger, opened + std::string(kClosingProofBytes, '\0')),
          seed(first_frame, '\0' + hello_frame(FrameType::hello, "{}")),
          seed(first_frame, '\1' + hello_frame(FrameType::link_hello, std::string(16, 's'))),
          seed(tls, client_hello())};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  switch (kind) {
    case opening:
      return run_opening(input);
    case challenge:
      return run_challenge(input);
    case tampered:
      return run_tampered(input);
    case stranger:
      return run_stranger(input);
    case first_frame:
      return run_first_frame(input);
    default:
      return run_tls(input);
  }
}

const Registration registered({"proof", seeds, run});

}  // namespace troupe::fuzz::proof_target
