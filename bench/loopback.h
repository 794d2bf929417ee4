// Loopback: what a connection between two processes of this machine can carry at most, with no
// addition and no message around it: the limit that a collective over such a connection is held to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::bench {

/// One end of a connection, with socket buffers of 1 MiB.
class Loopback {
 public:
  /// A listening socket of rank 0, on a free port of 127.0.0.1 or, with a `path`, there.
  class Listener {
   public:
    explicit Listener(std::string path = "");
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    [[nodiscard]] std::uint16_t port() const;
    [[nodiscard]] int fd() const { return fd_; }

   private:
    int fd_ = -1;
    std::string path_;
  };

  /// Rank 0's end.  Blocks: at most 60 s.  Throws (all): EnvironmentError.
  explicit Loopback(const Listener& listener);
  /// Rank 1's end, over TCP or a Unix socket.
  explicit Loopback(std::uint16_t port);
  explicit Loopback(const std::string& path);
  ~Loopback();
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  /// `bytes` from rank 0 to rank 1, and one byte back; `bytes` both ways at once. Both return when
  /// everything has arrived.  Blocks: at most 60 s without a byte.
  void one_way(std::size_t bytes, bool from_here);
  void duplex(std::size_t bytes);

 private:
  void set_up();

  int fd_ = -1;
  std::vector<char> out_;  // small enough to stay in the cache: the limit is the connection's
  std::vector<char> in_;
};

}  // namespace troupe::bench
