// Link: one data connection between two workers, TCP, with TLS or without, or a Unix socket, driven
// by the thread that calls a collective.
//
// Non-blocking throughout: write_some and read_some move what the socket takes now; the caller
// polls fd() when neither moves. Without Asio, whose reactor would wake the network thread for the
// bytes of every link. Thread rule: one thread at a time.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/core/span.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/net/io_result.h"
#include "troupe/distributed/net/tls_session.h"

namespace troupe {

class Link {
 public:
  /// Takes over a connected TCP or Unix socket; bytes travel as they are where `tls` is null.
  Link(UniqueFd connected, std::unique_ptr<TlsSession> tls, int peer);
  Link(Link&&) = default;
  Link& operator=(Link&&) = delete;  // the session ends before its socket is closed

  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Whether it is a Unix socket: then the peer runs on this machine, as the same user.
  [[nodiscard]] bool is_local() const { return local_; }
  /// Whether TLS carries its bytes.
  [[nodiscard]] bool is_encrypted() const { return tls_ != nullptr; }
  /// Whether what comes may differ from what was sent and only a checksum of ours shows it: TCP's
  /// own has 16 bits, and whatever forwards a connection computes it anew. Both ends say the same.
  [[nodiscard]] bool needs_checksum() const { return !is_local() && !is_encrypted(); }
  /// This end's address, numeric: "127.0.0.1"; "" of a Unix socket.
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  /// Bytes to give one write: whole TCP segments, each a multiple of 64 bytes. A write that ends
  /// inside a segment leaves a runt, which costs up to a factor three on loopback. Unix sockets
  /// have no segments.  Source: docs/performance.md (65536: 1.04 GB/s, 65408: 3.37 GB/s).
  /// TLS: whole records.
  [[nodiscard]] std::size_t write_bytes() const { return write_bytes_; }

  /// Writes from `first`, then `second`, then `third`; not all may be empty. What a call does not
  /// move, the next one begins with.
  [[nodiscard]] IoResult write_some(Span<const std::byte> first, Span<const std::byte> second,
                                    Span<const std::byte> third = {});
  /// Reads into `first`, then `second`; either may be empty, not both.
  [[nodiscard]] IoResult read_some(Span<std::byte> first, Span<std::byte> second);

  /// What poll(2) is to wait for when read_some() did not move: a read may have to write, too.
  [[nodiscard]] short read_events() const {
    return static_cast<short>(tls_ && tls_->wants_write() ? POLLIN | POLLOUT : POLLIN);
  }

  /// Hands the peer a copy of the open file `fd` (-1: none) with one byte of the stream: it must
  /// receive exactly there. Unix sockets only.
  [[nodiscard]] IoResult send_file(int fd);
  /// `file` gets what the peer handed over, nothing where its byte came without a file.
  [[nodiscard]] IoResult receive_file(UniqueFd& file);

 private:
  UniqueFd socket_;
  std::unique_ptr<TlsSession> tls_;  // destroyed before the socket that it writes to
  int peer_;
  bool local_;
  std::size_t write_bytes_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace troupe
