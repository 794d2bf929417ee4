// Link: one data connection between two workers, TCP or a Unix socket, driven by the thread that
// calls a collective.
//
// Non-blocking throughout: write_some and read_some move what the socket takes now; the caller
// polls fd() when neither moves. Without Asio, whose reactor would wake the network thread for the
// bytes of every link. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/span.h"
#include "core/unique_fd.h"
#include "net/io_result.h"

namespace troupe {

class Link {
 public:
  /// Takes over a connected TCP or Unix socket.
  Link(UniqueFd connected, int peer);

  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Whether it is a Unix socket: then the peer runs on this machine, as the same user.
  [[nodiscard]] bool is_local() const { return local_; }
  /// This end's address, numeric: "127.0.0.1"; "" of a Unix socket.
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  /// Bytes to give one write: whole TCP segments, each a multiple of 64 bytes. A write that ends
  /// inside a segment leaves a runt, which costs up to a factor three on loopback. Unix sockets
  /// have no segments.  Source: docs/performance.md (65536: 1.04 GB/s, 65408: 3.37 GB/s).
  [[nodiscard]] std::size_t write_bytes() const { return write_bytes_; }

  /// Writes from `first`, then `second`; either may be empty, not both.
  [[nodiscard]] IoResult write_some(Span<const std::byte> first, Span<const std::byte> second);
  /// Reads into `first`, then `second`; either may be empty, not both.
  [[nodiscard]] IoResult read_some(Span<std::byte> first, Span<std::byte> second);

  /// Hands the peer a copy of the open file `fd` (-1: none) with one byte of the stream: it must
  /// receive exactly there. Unix sockets only.
  [[nodiscard]] IoResult send_file(int fd);
  /// `file` gets what the peer handed over, nothing where its byte came without a file.
  [[nodiscard]] IoResult receive_file(UniqueFd& file);

 private:
  UniqueFd socket_;
  int peer_;
  bool local_;
  std::size_t write_bytes_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace troupe
