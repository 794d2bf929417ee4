// What stands between, or in for, the two ends of a TlsSession: a relay that records and damages,
// and peers that a server or a client must refuse, straight on OpenSSL.
#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/secret.h"
#include "troupe/core/unique_fd.h"

namespace troupe::testing {

/// Two connections and what travels between them: nothing does by itself.
class Relay {
 public:
  /// Buffers as small as the system allows where buffer_bytes is 1; 0: as they are.
  explicit Relay(int buffer_bytes = 0);

  [[nodiscard]] int client() const { return client_.get(); }
  [[nodiscard]] int server() const { return server_.get(); }
  /// Carries what has come as far as the sockets take it; at most so many bytes each way.
  void pump(std::size_t most = std::numeric_limits<std::size_t>::max());
  void send_to_client(const std::string& bytes);
  void send_to_server(const std::string& bytes);
  /// The lowest bit of the byte that is this number of to_server is carried inverted.
  void flip_to_server(std::size_t place) { flip_at_ = place; }
  /// The server sees the connection end.
  void cut_to_server();

  std::string to_server;  // carried so far
  std::string to_client;

 private:
  void carry(int from, int to, std::string& carried, std::string& waiting, std::size_t most);

  UniqueFd client_;
  UniqueFd client_side_;
  UniqueFd server_;
  UniqueFd server_side_;
  std::string for_server_;  // read, not yet carried
  std::string for_client_;
  std::size_t flip_at_ = std::numeric_limits<std::size_t>::max();
};

/// A ClientHello or ServerHello, as the first record of `stream`.
struct Hello {
  explicit Hello(const std::string& stream);
  [[nodiscard]] std::string extension(int type) const { return extensions.at(type); }

  std::vector<int> suites;  // a ServerHello has one
  std::map<int, std::string> extensions;
};

/// The lengths in the headers of TLS records.
[[nodiscard]] std::vector<std::size_t> record_lengths(const std::string& stream);

/// A server with a certificate of its own making and no secret.
class CertifiedServer {
 public:
  explicit CertifiedServer(int fd);
  ~CertifiedServer();
  CertifiedServer(const CertifiedServer&) = delete;
  CertifiedServer& operator=(const CertifiedServer&) = delete;
  void handshake();
  /// Whether it has sent its certificate and all that goes with it.
  [[nodiscard]] bool has_answered() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct ClientWishes {
  int version = 0x0304;
  const char* suites = "TLS_AES_128_GCM_SHA256";
  const char* groups = nullptr;  // of the exchange, which then need not be; null: OpenSSL's
  bool psk = true;
};

/// A client with the right key that asks for other terms.
class WishingClient {
 public:
  WishingClient(int fd, const std::string& name, const Key& key, const ClientWishes& wishes);
  ~WishingClient();
  WishingClient(const WishingClient&) = delete;
  WishingClient& operator=(const WishingClient&) = delete;
  void handshake();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::testing
