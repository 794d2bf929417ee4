// Handshake: the two ends of a fresh connection prove to each other that they belong to the job.
//
// Encrypted connections (TCP, where Credentials say so) prove it by TLS, others by an exchange of
// HMACs (net/proof.h); Unix sockets never by TLS. Thread rule: the network thread only.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "net/credentials.h"
#include "net/tls_session.h"

namespace troupe {

/// TCP or Unix.
using StreamSocket = boost::asio::generic::stream_protocol::socket;

/// A connection whose other end has proven that it holds the secret, and who it is.
struct ProvenSocket {
  StreamSocket socket;
  std::unique_ptr<TlsSession> tls;  // null: bytes travel as they are
  Identity identity;
};

/// Runs one; destroyed, it forgets the socket and calls nobody.
class Handshake {
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
};

}  // namespace troupe
