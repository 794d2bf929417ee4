// ProvenSocket: a connection whose peer has proven its identity, and its bytes without waiting.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "troupe/core/span.h"
#include "troupe/distributed/net/credentials.h"
#include "troupe/distributed/net/io_result.h"
#include "troupe/distributed/net/tls_session.h"

namespace troupe {

/// TCP or Unix.
using StreamSocket = boost::asio::generic::stream_protocol::socket;

struct ProvenSocket {
  StreamSocket socket;
  std::unique_ptr<TlsSession> tls;  // null: bytes travel as they are
  Identity identity;

  void close();
};

/// Reads what has come, at most `into`.
[[nodiscard]] IoResult read_now(ProvenSocket& from, Span<std::byte> into);

/// Writes what the socket takes of `first` and then `second`; with TLS as TlsSession::write_some().
[[nodiscard]] IoResult write_now(ProvenSocket& to, Span<const std::byte> first,
                                 Span<const std::byte> second);

/// Reads until `into` is full, then runs `then(true)`; `then(false)` when the connection ends
/// before, or is closed at this end. The caller keeps both where they are until then. `then` may
/// run before this returns. Thread rule: the network thread only.
void read_fully(ProvenSocket& from, Span<std::byte> into, const std::function<void(bool)>& then);

/// Sends a few bytes: a new connection's buffers have room for them. False: the connection is gone.
[[nodiscard]] bool send_now(ProvenSocket& to, Span<const std::byte> bytes);

}  // namespace troupe
