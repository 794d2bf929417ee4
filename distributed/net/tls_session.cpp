#include "troupe/distributed/net/tls_session.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/tls_identity.h"

namespace troupe {
namespace {

constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;  // of the largest record
static_assert(TlsSession::kWriteBytes % kRecordBytes == 0);
// A handshake of ours takes less than 1 KiB each way. A stranger costs no more than this to read.
constexpr std::size_t kMaxHandshakeBytes = std::size_t{4} * 1024;
// OpenSSL moves one record at a time, here between memory and memory (a pair of BIOs, whose pages
// cost nothing before they are used); calls to the system move what several records need at once.
constexpr std::size_t kReadRoom = std::size_t{256} * 1024;
constexpr std::size_t kWriteRoom = TlsSession::kWriteBytes + TlsSession::kWriteBytes / 8;

}  // namespace

struct TlsSession::State {
  using Parts = std::array<Span<const std::byte>, 3>;

  State(int socket, std::uint64_t per_key) : fd(socket), records_per_key(per_key) {}
  ~State() {
    SSL_free(ssl);
    BIO_free(wire);
    OPENSSL_cleanse(key.data(), key.size());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void begin(SSL_CTX* context);
  static SSL_CTX* client_context();
  static SSL_CTX* server_context();
  static State& of(SSL* ssl) { return *static_cast<State*>(SSL_get_app_data(ssl)); }
  static unsigned tell_key(SSL* ssl, const char* hint, char* name, unsigned name_room,
                           unsigned char* psk, unsigned psk_room) noexcept;
  static unsigned find_key(SSL* ssl, const char* name, unsigned char* psk,
                           unsigned psk_room) noexcept;

  [[nodiscard]] IoResult fail(int error);
  /// Reads what OpenSSL waits for.
  [[nodiscard]] IoResult fill();
  /// Writes what OpenSSL has left here. moved: nothing is left.
  [[nodiscard]] IoResult flush();
  [[nodiscard]] bool has_unsent() const { return !failed && BIO_ctrl_pending(wire) > 0; }
  /// Makes `call` to OpenSSL, again whenever bytes have come that it waited for. moved: it
  /// succeeded.
  template <class Function>
  [[nodiscard]] IoResult make(const Function& call);
  [[nodiscard]] bool seal_record(const Parts& parts);
  [[nodiscard]] Span<const std::byte> record_at(const Parts& parts, std::size_t from);

  const int fd;
  SSL* ssl = nullptr;
  BIO* wire = nullptr;                        // the socket's end of the pair
  std::size_t readable = kMaxHandshakeBytes;  // by OpenSSL, until the handshake is complete
  std::shared_ptr<const Secret> secret;       // a server's
  std::string task;                           // a server's
  std::string sealed_identity;                // a client's
  Key key{};                                  // a client's
  std::optional<Identity> identity;  // a server's: claimed, until the handshake is complete
  const std::uint64_t records_per_key;
  std::uint64_t records = 0;            // sealed with the present key
  std::vector<std::byte> put_together;  // a record of several pieces of memory
  std::size_t sealed = 0;               // plain bytes that the socket has not taken altogether
  bool complete = false;
  bool dry = true;  // the last read found less than a record
  std::optional<int> failed;
};

namespace {

unsigned copy_key(const Key& key, unsigned char* psk, unsigned room) {
  if (room < key.size()) return 0;
  std::memcpy(psk, key.data(), key.size());
  return static_cast<unsigned>(key.size());
}

// Certificates prove nothing here, so a client must refuse them: it looks for one's issuer among
// none, and a server has none to show. Also against the system's configuration of OpenSSL, every
// choice is made here: nothing is left to be negotiated.
SSL_CTX* make_context(const SSL_METHOD* method) {
  SSL_CTX* const context = SSL_CTX_new(method);
  const bool set = context != nullptr &&
                   SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                   SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 &&
                   SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!set) {
    SSL_CTX_free(context);
    throw EnvironmentError("OpenSSL does not offer TLS 1.3 with AES-128-GCM and X25519.",
                           "look at the system's OpenSSL, 3.0 or newer.");
  }
  SSL_CTX_clear_options(context, SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_early_data(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return context;
}

}  // namespace

// One of each for the life of the process.
SSL_CTX* TlsSession::State::client_context() {
  static SSL_CTX* const context = [] {
    SSL_CTX* const made = make_context(TLS_client_method());
    SSL_CTX_set_psk_client_callback(made, tell_key);
    return made;
  }();
  return context;
}

SSL_CTX* TlsSession::State::server_context() {
  static SSL_CTX* const context = [] {
    SSL_CTX* const made = make_context(TLS_server_method());
    SSL_CTX_set_verify(made, SSL_VERIFY_NONE, nullptr);  // it asks for no certificate
    SSL_CTX_set_psk_server_callback(made, find_key);
    return made;
  }();
  return context;
}

unsigned TlsSession::State::tell_key(SSL* ssl, const char* /*hint*/, char* name, unsigned name_room,
                                     unsigned char* psk, unsigned psk_room) noexcept {
  const State& state = of(ssl);
  if (state.sealed_identity.size() >= name_room) return 0;
  std::memcpy(name, state.sealed_identity.c_str(), state.sealed_identity.size() + 1);
  return copy_key(state.key, psk, psk_room);
}

unsigned TlsSession::State::find_key(SSL* ssl, const char* name, unsigned char* psk,
                                     unsigned psk_room) noexcept {
  State& state = of(ssl);
  state.identity = open_identity(*state.secret, name);
  if (!state.identity || state.identity->server != state.task) return 0;
  return copy_key(tls_key(*state.secret, *state.identity), psk, psk_room);
}

void TlsSession::State::begin(SSL_CTX* context) {
  ssl = SSL_new(context);
  BIO* bio = nullptr;
  if (ssl == nullptr || BIO_new_bio_pair(&bio, kWriteRoom, &wire, kReadRoom) != 1) {
    throw EnvironmentError("OpenSSL has no memory for a connection.", "free some memory.");
  }
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, this);
}

IoResult TlsSession::State::fail(int error) {
  failed = error;
  return {IoResult::State::closed, 0, error};
}

IoResult TlsSession::State::fill() {
  char* room = nullptr;
  const auto most = static_cast<std::size_t>(BIO_nwrite0(wire, &room));
  if (readable == 0) return {IoResult::State::closed, 0, EPROTO};
  IoResult got =
      result_of_call(::recv(fd, room, complete ? most : std::min(most, readable), MSG_DONTWAIT));
  if (got.state == IoResult::State::moved) {
    BIO_nwrite(wire, &room, static_cast<int>(got.bytes));
    if (!complete) readable -= got.bytes;
  } else if (got.state == IoResult::State::closed && got.error == 0) {
    got.error = ECONNRESET;  // the session had not ended
  }
  return got;
}

IoResult TlsSession::State::flush() {
  using Outcome = IoResult::State;
  if (failed) return {Outcome::closed, 0, *failed};
  while (has_unsent()) {
    char* bytes = nullptr;
    const auto count = static_cast<std::size_t>(BIO_nread0(wire, &bytes));
    const IoResult went = result_of_call(::send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (went.state != Outcome::moved) return went;
    BIO_nread(wire, &bytes, static_cast<int>(went.bytes));
    if (went.bytes < count) return {Outcome::would_block, 0, 0};
  }
  return {Outcome::moved, 0, 0};
}

template <class Function>
IoResult TlsSession::State::make(const Function& call) {
  using Outcome = IoResult::State;
  for (;;) {
    ERR_clear_error();
    const int returned = call();
    if (returned == 1) return {Outcome::moved, 0, 0};
    const int why = SSL_get_error(ssl, returned);
    if (why == SSL_ERROR_ZERO_RETURN) return {Outcome::closed, 0, 0};
    if (why == SSL_ERROR_WANT_WRITE) return {Outcome::would_block, 0, 0};
    if (why != SSL_ERROR_WANT_READ) return fail(EBADMSG);
    const IoResult got = fill();
    if (got.state == Outcome::closed) return fail(got.error);
    if (got.state == Outcome::would_block) return got;
  }
}

TlsSession::TlsSession(std::unique_ptr<State> state) : state_(std::move(state)) {}

std::unique_ptr<TlsSession> TlsSession::client(int fd, const Secret& secret,
                                               const Identity& identity,
                                               std::uint64_t records_per_key) {
  auto state = std::make_unique<State>(fd, records_per_key);
  state->identity = identity;
  state->sealed_identity = seal_identity(secret, identity);
  state->key = tls_key(secret, identity);
  state->begin(State::client_context());
  SSL_set_connect_state(state->ssl);
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(state)));
}

std::unique_ptr<TlsSession> TlsSession::server(int fd, std::shared_ptr<const Secret> secret,
                                               const std::string& task,
                                               std::uint64_t records_per_key) {
  auto state = std::make_unique<State>(fd, records_per_key);
  state->secret = std::move(secret);
  state->task = task;
  state->begin(State::server_context());
  SSL_set_accept_state(state->ssl);
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(state)));
}

TlsSession::~TlsSession() {
  if (!state_->complete || state_->failed) return;
  ERR_clear_error();
  SSL_shutdown(state_->ssl);
  (void)state_->flush();  // as far as the socket takes it: nobody waits here
  ERR_clear_error();
}

IoResult TlsSession::handshake() {
  State& state = *state_;
  if (state.failed) return {IoResult::State::closed, 0, *state.failed};
  if (!state.complete) {
    const IoResult result = state.make([&] { return SSL_do_handshake(state.ssl); });
    if (result.state != IoResult::State::moved) {
      const IoResult flushed = state.flush();
      return flushed.state == IoResult::State::closed ? state.fail(flushed.error) : result;
    }
    if (SSL_session_reused(state.ssl) != 1) return state.fail(EPROTO);  // without the key
    state.complete = true;
    state.dry = false;
    OPENSSL_cleanse(state.key.data(), state.key.size());
  }
  const IoResult flushed = state.flush();
  return flushed.state == IoResult::State::closed ? state.fail(flushed.error) : flushed;
}

const Identity& TlsSession::identity() const {
  TROUPE_CHECK(state_->complete);
  return *state_->identity;
}

IoResult TlsSession::read_some(Span<std::byte> first, Span<std::byte> second) {
  State& state = *state_;
  if (state.failed) return {IoResult::State::closed, 0, *state.failed};
  std::size_t done = 0;
  for (const Span<std::byte> part : {first, second}) {
    for (std::size_t at = 0; at < part.size();) {
      std::size_t bytes = 0;
      const IoResult result = state.make(
          [&] { return SSL_read_ex(state.ssl, part.data() + at, part.size() - at, &bytes); });
      state.dry = result.state != IoResult::State::moved;
      if (state.dry) {  // where it is an end, the next call's too
        // What a read had to write; what a write has begun goes on with that one.
        if (state.sealed == 0) (void)state.flush();
        return done > 0 ? IoResult{IoResult::State::moved, done, 0} : result;
      }
      at += bytes;
      done += bytes;
    }
  }
  return {IoResult::State::moved, done, 0};
}

bool TlsSession::State::seal_record(const Parts& parts) {
  const Span<const std::byte> record = record_at(parts, sealed);
  ERR_clear_error();
  if (records == records_per_key) {
    if (SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return false;
    records = 0;
  }
  std::size_t written = 0;
  if (SSL_write_ex(ssl, record.data(), record.size(), &written) != 1) return false;
  ++records;
  sealed += written;
  return true;
}

// The record that begins `from` bytes into `parts`. Where that is in several pieces of memory they
// are put together: a header is no record of its own.
Span<const std::byte> TlsSession::State::record_at(const Parts& parts, std::size_t from) {
  std::size_t filled = 0;
  for (const Span<const std::byte>& part : parts) {
    const std::size_t skipped = std::min(from, part.size());
    from -= skipped;
    const std::size_t bytes = std::min(kRecordBytes - filled, part.size() - skipped);
    if (bytes == 0) continue;
    const Span<const std::byte> piece = part.subspan(skipped, bytes);
    if (bytes == kRecordBytes) return piece;
    put_together.resize(kRecordBytes);
    std::memcpy(put_together.data() + filled, piece.data(), bytes);
    filled += bytes;
  }
  return {put_together.data(), filled};
}

IoResult TlsSession::write_some(Span<const std::byte> first, Span<const std::byte> second,
                                Span<const std::byte> third) {
  using Outcome = IoResult::State;
  State& state = *state_;
  if (state.failed) return {Outcome::closed, 0, *state.failed};
  const State::Parts parts = {first, second, third};
  const std::size_t all = first.size() + second.size() + third.size();
  TROUPE_CHECK(state.sealed <= all);
  IoResult flushed = state.flush();
  const std::size_t gone = flushed.state == Outcome::moved ? state.sealed : 0;
  if (flushed.state == Outcome::moved) {
    const std::size_t most = std::min(all, gone + kWriteBytes);
    while (state.sealed < most) {
      if (!state.seal_record(parts)) return {Outcome::closed, 0, EPROTO};
    }
    flushed = state.flush();
  }
  if (flushed.state == Outcome::closed) return flushed;  // reads go on: what has come is here
  const std::size_t moved = flushed.state == Outcome::moved ? state.sealed : gone;
  state.sealed -= moved;
  return moved > 0 ? IoResult{Outcome::moved, moved, 0} : IoResult{Outcome::would_block, 0, 0};
}

bool TlsSession::wants_write() const { return state_->has_unsent(); }

bool TlsSession::has_pending() const {
  return !state_->dry &&
         (BIO_pending(SSL_get_rbio(state_->ssl)) > 0 || SSL_has_pending(state_->ssl) == 1);
}

}  // namespace troupe
