// What every socket of Troupe is set to, and what the system is asked about it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "troupe/core/span.h"

namespace troupe {

/// Send and receive buffer of every socket, set before connect or listen so that TCP can scale its
/// window to it. Source: docs/performance.md (1 MiB: bytes in flight stay in
/// the cache, up to 4x for full-duplex traffic).
inline constexpr int kSocketBufferBytes = 1 << 20;

/// A new process must not inherit the socket: its copy would hide our end from the peer.
void set_close_on_exec(int fd) noexcept;

/// Buffers and close-on-exec, for a socket or acceptor that is open but not connected.
void prepare_socket(int fd) noexcept;

/// Sets a connected socket up: TCP's without delay, because a header must not wait for more bytes;
/// a Unix socket's buffers. Returns "", or why the process at the other end of a Unix socket is not
/// trusted: it does not run as this process's user.
[[nodiscard]] std::string tune_connected(int fd);

/// AF_INET, AF_INET6, AF_UNIX, or AF_UNSPEC when `fd` is no socket.
[[nodiscard]] int socket_family(int fd) noexcept;
/// The numeric IP address that a TCP socket has at this end: "127.0.0.1", "::1".
[[nodiscard]] std::string numeric_address(int fd);
/// Where a TCP socket is connected to: "127.0.0.1:4711"; "": nowhere.
[[nodiscard]] std::string peer_address(int fd);
/// As ::send of `first`, `second` and then `third`, without waiting and without SIGPIPE.
[[nodiscard]] ssize_t send_parts(int fd, Span<const std::byte> first, Span<const std::byte> second,
                                 Span<const std::byte> third = {}) noexcept;

}  // namespace troupe
