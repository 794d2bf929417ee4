// Handshake: the two ends of a fresh connection prove to each other that they belong to the job.
//
// Encrypted connections (TCP, where Credentials say so) prove it by TLS, others by an exchange of
// HMACs (distributed/net/proof.h); Unix sockets never by TLS. Thread rule: the network thread only.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/distributed/net/credentials.h"
#include "troupe/distributed/net/proof.h"
#include "troupe/distributed/net/proven_socket.h"

namespace troupe {

/// Runs one; destroyed, it forgets the socket and calls nobody. Neither is called before the
/// function that makes it has returned.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  using OnProven = std::function<void(ProvenSocket)>;
  /// `why` is for the log of the end that connected; the one that answers tells strangers nothing.
  using OnFailed = std::function<void(const std::string& why)>;

  /// The connecting end; it asks for `server` by name.
  static std::shared_ptr<Handshake> as_client(StreamSocket socket, const Credentials& credentials,
                                              Purpose purpose, const std::string& server,
                                              std::chrono::milliseconds limit, OnProven on_proven,
                                              OnFailed on_failed);
  /// The end that answers; the client says what it wants.
  static std::shared_ptr<Handshake> as_server(StreamSocket socket, const Credentials& credentials,
                                              std::chrono::milliseconds limit, OnProven on_proven,
                                              OnFailed on_failed);

  /// Whether the other end has begun as the protocol wants: said who it is.
  [[nodiscard]] bool has_opened() const;

 private:
  Handshake(StreamSocket socket, OnProven on_proven, OnFailed on_failed);
  /// `asked`: what the connecting end wants; null: this end answers.
  static std::shared_ptr<Handshake> begin(StreamSocket socket, const Credentials& credentials,
                                          const Identity* asked, std::chrono::milliseconds limit,
                                          OnProven on_proven, OnFailed on_failed);
  void go_on();
  [[nodiscard]] IoResult exchange();
  void wait();
  void succeed();
  void fail(const std::string& why);

  ProvenSocket made_;
  std::optional<Proof> proof_;  // none: TLS
  std::vector<std::byte> in_;   // of the proof's next message, what has come
  bool has_heard_ = false;      // anything at all
  OnProven on_proven_;
  OnFailed on_failed_;
  boost::asio::steady_timer limit_;
};

}  // namespace troupe
