// TlsSession: TLS 1.3 over one connected socket, with a key derived from the job's secret as
// external PSK (RFC 8446, 2.2; RFC 9257): psk_dhe_ke, TLS_AES_128_GCM_SHA256, no tickets, no early
// data, no certificates.
//
// The PSK's identity names the connection, "troupe1/<generation>/<purpose>/<client>><server>", and
// the key is derived from it: a server answers only what is addressed to it, so that nobody's own
// messages can be returned to him. Non-blocking throughout, like Link: the caller waits for the
// socket when neither direction moves. OpenSSL stays behind this header.
// Thread rule: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/span.h"
#include "net/credentials.h"
#include "net/io_result.h"

namespace troupe {

class TlsSession {
 public:
  /// `fd` stays the caller's, open as long as this object lives.
  [[nodiscard]] static std::unique_ptr<TlsSession> client(int fd, const Secret& secret,
                                                          const Identity& identity);
  /// Answers whoever proves to be a client of `task`.
  [[nodiscard]] static std::unique_ptr<TlsSession> server(int fd,
                                                          std::shared_ptr<const Secret> secret,
                                                          const std::string& task);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Goes on with the handshake. moved: it is complete. closed: the other end is gone or did not
  /// prove itself; nothing more is known.
  [[nodiscard]] IoResult handshake();
  /// Of a complete handshake: what the other end has proven.
  [[nodiscard]] const Identity& identity() const;

  /// As Link's. closed with error EBADMSG: what came was not sent by the other end.
  [[nodiscard]] IoResult read_some(Span<std::byte> first, Span<std::byte> second);
  [[nodiscard]] IoResult write_some(Span<const std::byte> first, Span<const std::byte> second);
  /// Whether the last call that could not go on waits for room in the socket, not for bytes: a read
  /// may have to write, too.
  [[nodiscard]] bool wants_write() const;
  /// Whether there are bytes to read that poll(2) knows nothing of.
  [[nodiscard]] bool has_pending() const;
  /// Whether encrypted bytes are still to be written before poll(2) may be waited on for reading
  /// alone: write_some() with nothing to write goes on with them.
  [[nodiscard]] bool has_unsent() const;

 private:
  struct State;
  explicit TlsSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troupe
