#include "tests/unit/net/tls_relay.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <stdexcept>

namespace troupe::testing {
namespace {

void make_pair(UniqueFd& one, UniqueFd& other, int buffer_bytes) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    throw std::runtime_error("the test has no sockets");
  }
  one.reset(fds[0]);
  other.reset(fds[1]);
  for (const int fd : fds) {
    if (buffer_bytes == 0) continue;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
  }
}

std::size_t number(const std::string& bytes, std::size_t at, std::size_t count) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = 256 * value + static_cast<unsigned char>(bytes.at(at + i));
  }
  return value;
}

}  // namespace

Relay::Relay(int buffer_bytes) {
  make_pair(client_, client_side_, buffer_bytes);
  make_pair(server_, server_side_, buffer_bytes);
}

void Relay::pump(std::size_t most) {
  carry(client_side_.get(), server_side_.get(), to_server, for_server_, most);
  carry(server_side_.get(), client_side_.get(), to_client, for_client_, most);
}

void Relay::carry(int from, int to, std::string& carried, std::string& waiting, std::size_t most) {
  std::array<char, 16'384> buffer;
  for (;;) {
    const auto got =
        waiting.size() >= buffer.size() ? -1 : ::recv(from, buffer.data(), buffer.size(), 0);
    if (got > 0) waiting.append(buffer.data(), static_cast<std::size_t>(got));
    if (&carried == &to_server && flip_at_ >= carried.size() &&
        flip_at_ < carried.size() + waiting.size()) {
      char& byte = waiting[flip_at_ - carried.size()];
      byte = static_cast<char>(byte ^ 1);
      flip_at_ = std::numeric_limits<std::size_t>::max();
    }
    if (waiting.empty() || most == 0) return;
    const auto went = ::send(to, waiting.data(), std::min(most, waiting.size()), MSG_NOSIGNAL);
    if (went <= 0) return;
    carried.append(waiting, 0, static_cast<std::size_t>(went));
    waiting.erase(0, static_cast<std::size_t>(went));
    most -= static_cast<std::size_t>(went);
  }
}

void Relay::send_to_client(const std::string& bytes) {
  [[maybe_unused]] const auto sent =
      ::send(client_side_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void Relay::send_to_server(const std::string& bytes) {
  [[maybe_unused]] const auto sent =
      ::send(server_side_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void Relay::cut_to_server() { ::shutdown(server_side_.get(), SHUT_WR); }

Hello::Hello(const std::string& stream) {
  const bool is_client = stream.at(5) == 1;
  std::size_t at = 5 + 4 + 2 + 32;  // headers of record and message, version, random
  at += 1 + number(stream, at, 1);  // session
  const std::size_t bytes = is_client ? number(stream, at, 2) : 2;
  if (is_client) at += 2;
  for (std::size_t i = 0; i < bytes; i += 2)
    suites.push_back(static_cast<int>(number(stream, at + i, 2)));
  at += bytes;
  at += is_client ? 1 + number(stream, at, 1) : 1;  // compression
  const std::size_t end = at + 2 + number(stream, at, 2);
  for (at += 2; at < end;) {
    const std::size_t length = number(stream, at + 2, 2);
    extensions[static_cast<int>(number(stream, at, 2))] = stream.substr(at + 4, length);
    at += 4 + length;
  }
}

std::vector<std::size_t> record_lengths(const std::string& stream) {
  std::vector<std::size_t> lengths;
  for (std::size_t at = 0; at < stream.size(); at += 5 + lengths.back()) {
    lengths.push_back(number(stream, at + 3, 2));
  }
  return lengths;
}

struct CertifiedServer::State {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  SSL* ssl = nullptr;
};

CertifiedServer::CertifiedServer(int fd) : state_(std::make_unique<State>()) {
  State& state = *state_;
  X509_set_version(state.certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(state.certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(state.certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(state.certificate), 3600);
  X509_set_pubkey(state.certificate, state.key);
  X509_NAME* const name = X509_get_subject_name(state.certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("worker/0"), -1, -1, 0);
  X509_set_issuer_name(state.certificate, name);
  X509_sign(state.certificate, state.key, EVP_sha256());
  SSL_CTX_use_certificate(state.context, state.certificate);
  SSL_CTX_use_PrivateKey(state.context, state.key);
  state.ssl = SSL_new(state.context);
  SSL_set_fd(state.ssl, fd);
  SSL_set_accept_state(state.ssl);
}

CertifiedServer::~CertifiedServer() {
  SSL_free(state_->ssl);
  X509_free(state_->certificate);
  EVP_PKEY_free(state_->key);
  SSL_CTX_free(state_->context);
}

void CertifiedServer::handshake() { SSL_do_handshake(state_->ssl); }

bool CertifiedServer::has_answered() const {
  // It waits for the client's part; or the client's alert has ended it.
  return SSL_get_state(state_->ssl) >= TLS_ST_SW_CERT || SSL_is_init_finished(state_->ssl) == 1;
}

struct WishingClient::State {
  std::string name;
  Key key{};
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
};

WishingClient::WishingClient(int fd, const std::string& name, const Key& key,
                             const ClientWishes& wishes)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.name = name;
  state.key = key;
  state.context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(state.context, wishes.version);
  SSL_CTX_set_ciphersuites(state.context, wishes.suites);
  if (wishes.groups != nullptr) {
    SSL_CTX_set1_groups_list(state.context, wishes.groups);
    SSL_CTX_set_options(state.context, SSL_OP_ALLOW_NO_DHE_KEX);
  }
  const auto tell = [](SSL* ssl, const char*, char* to, unsigned, unsigned char* psk, unsigned) {
    const State& mine = *static_cast<State*>(SSL_get_app_data(ssl));
    std::memcpy(to, mine.name.c_str(), mine.name.size() + 1);
    std::memcpy(psk, mine.key.data(), mine.key.size());
    return static_cast<unsigned>(mine.key.size());
  };
  if (wishes.psk) SSL_CTX_set_psk_client_callback(state.context, tell);
  state.ssl = SSL_new(state.context);
  SSL_set_app_data(state.ssl, &state);
  SSL_set_fd(state.ssl, fd);
  SSL_set_connect_state(state.ssl);
}

WishingClient::~WishingClient() {
  SSL_free(state_->ssl);
  SSL_CTX_free(state_->context);
}

void WishingClient::handshake() { SSL_do_handshake(state_->ssl); }

}  // namespace troupe::testing
