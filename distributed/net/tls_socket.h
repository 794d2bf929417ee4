// TlsSocket: the socket under a TlsSession, as OpenSSL's I/O object (BIO) sees it.
//
// OpenSSL moves one record at a time, here between memory and memory; the calls to the system move
// what several records need at once, without waiting and without SIGPIPE. For tls_session.cpp
// alone. Thread rule: the session's.
#pragma once

#include <openssl/bio.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "troupe/distributed/net/io_result.h"

namespace troupe {

class TlsSocket {
 public:
  /// `fd` stays the caller's.
  explicit TlsSocket(int fd);
  TlsSocket(const TlsSocket&) = delete;
  TlsSocket& operator=(const TlsSocket&) = delete;

  /// A BIO over this object, which must outlive it; the caller frees it. Null: out of memory.
  [[nodiscard]] BIO* make_bio();
  /// OpenSSL gets at most `bytes` more from here; then the connection fails. A stranger's share.
  void limit_reading(std::size_t bytes) { readable_ = bytes; }
  void lift_limit() { readable_ = std::numeric_limits<std::size_t>::max(); }

  /// Writes what OpenSSL has left here. moved: nothing is left.
  [[nodiscard]] IoResult flush();
  [[nodiscard]] bool has_unsent() const { return sent_ < out_.size(); }
  /// What has not been sent never will be.
  void drop_unsent();
  /// Whether bytes have been read from the socket that OpenSSL has not taken.
  [[nodiscard]] bool has_unread() const { return taken_ < filled_; }
  /// Whether the other end has closed the connection.
  [[nodiscard]] bool ended() const { return ended_; }
  /// errno of what the socket refused; 0: nothing.
  [[nodiscard]] int error() const { return error_; }

  // For the BIO. read: false where nothing can be had; then ended(), error(), or wait.
  [[nodiscard]] bool read(char* to, std::size_t most, std::size_t& bytes);
  void write(const char* from, std::size_t bytes) { out_.insert(out_.end(), from, from + bytes); }

 private:
  [[nodiscard]] bool fill();

  const int fd_;
  std::vector<char> in_;
  std::size_t taken_ = 0;   // of in_
  std::size_t filled_ = 0;  // of in_
  std::vector<char> out_;
  std::size_t sent_ = 0;  // of out_
  std::size_t readable_ = std::numeric_limits<std::size_t>::max();
  bool ended_ = false;
  int error_ = 0;
};

}  // namespace troupe
