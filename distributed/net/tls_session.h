// TlsSession: TLS 1.3 over one connected socket, with a key derived from the job's secret as
// external PSK (RFC 8446, 2.2; RFC 9257): psk_dhe_ke, TLS_AES_128_GCM_SHA256, no tickets, no early
// data, no certificates.
//
// The PSK's identity names the connection (distributed/net/tls_identity.h), and the key is derived
// from it: a server answers only what is addressed to it, so that nobody's own messages can be
// returned to him. Non-blocking throughout, like Link: the caller waits for the socket when neither
// direction moves. OpenSSL stays behind this header. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/core/span.h"
#include "troupe/distributed/net/credentials.h"
#include "troupe/distributed/net/io_result.h"

namespace troupe {

class TlsSession {
 public:
  /// A direction's key is replaced after so many records: half of what a key of AES-GCM may seal
  /// (RFC 8446, 5.5), in a power of two.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 24;

  /// Bytes to give one write: so many are sealed before the socket gets them, in whole records.
  /// Source: docs/performance.md, "TLS".
  static constexpr std::size_t kWriteBytes = std::size_t{8} * 16 * 1024;

  /// `fd` stays the caller's, open as long as this object lives; destroyed after a complete
  /// handshake, it tells the other end that the connection ended here.
  [[nodiscard]] static std::unique_ptr<TlsSession> client(
      int fd, const Secret& secret, const Identity& identity,
      std::uint64_t records_per_key = kRecordsPerKey);
  /// Answers whoever proves to be a client of `task`.
  [[nodiscard]] static std::unique_ptr<TlsSession> server(
      int fd, std::shared_ptr<const Secret> secret, const std::string& task,
      std::uint64_t records_per_key = kRecordsPerKey);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Goes on with the handshake. moved: it is complete. closed: the other end is gone or did not
  /// prove itself; nothing more is known, and it is told nothing.
  [[nodiscard]] IoResult handshake();
  /// Of a complete handshake: what the other end has proven.
  [[nodiscard]] const Identity& identity() const;

  /// As Link's. closed: error 0 when the other end closed the session; ECONNRESET when the
  /// connection ended without that, as where its process was killed; EBADMSG when what came was not
  /// sent by it.
  [[nodiscard]] IoResult read_some(Span<std::byte> first, Span<std::byte> second);
  /// Bytes have moved when the socket has taken all that they became. Until then the next call has
  /// to begin with the same bytes, as it would without TLS; they may lie elsewhere.
  /// With nothing to write it goes on with what a read had to write.
  [[nodiscard]] IoResult write_some(Span<const std::byte> first, Span<const std::byte> second,
                                    Span<const std::byte> third = {});
  /// Whether a call that could not go on waits for room in the socket, rather than for bytes: a
  /// read may have to write, too.
  [[nodiscard]] bool wants_write() const;
  /// Whether a read may find bytes that poll(2) knows nothing of.
  [[nodiscard]] bool has_pending() const;

 private:
  struct State;
  explicit TlsSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troupe
