// Network: hosts, and stream sockets between their processes, TCP and Unix.
//
// What a socket is given travels in segments: in order, each for a time that comes from the seed,
// and arrives in pieces. A path that is cut keeps them until it is mended and a retransmission is
// due. A closed socket answers as the system's would: with an end, or with a reset where bytes were
// not read.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/descriptors.h"
#include "troupe/core/span.h"

namespace troupe::simulation {

/// A socket's address, as the system's calls have it.
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  [[nodiscard]] static Address of(const sockaddr* from, socklen_t size);
  [[nodiscard]] static Address tcp(const std::string& host, std::uint16_t port);
  void give(sockaddr* into, socklen_t* room) const;
  [[nodiscard]] std::string host() const;  // of TCP
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string name() const;  // of a Unix socket
};

class Listener;

class Stream final : public File, public std::enable_shared_from_this<Stream> {
 public:
  Stream(int of_family, std::string at_host) : family(of_family), host(std::move(at_host)) {}
  [[nodiscard]] std::uint32_t ready() const override;
  void on_close() override;

  // As the calls of these names, on a socket that does not block; the result, or -errno.
  long connect(const Address& to);
  long send(const std::vector<Span<const std::byte>>& parts, int file);
  /// `file` gets what came with the first byte, -1: nothing; null: it is not wanted.
  long receive(const std::vector<Span<std::byte>>& parts, int* file);
  int take_error() { return std::exchange(error_, 0); }

  /// A reset comes from nowhere, to this end.
  void reset();
  [[nodiscard]] bool is_connected() const { return state_ == State::connected; }
  [[nodiscard]] Stream* peer() const { return peer_.get(); }
  /// Lets go what a cut path has kept.
  void retransmit();

  const int family;
  const std::string host;
  Address local;
  Address remote;
  bool is_dark = false;  // nothing arrives any more, in both directions
  bool lingers = true;   // false: closing it resets
  std::uint64_t sent_bytes = 0;

 private:
  friend class Listener;
  enum class State { fresh, connecting, connected };
  struct Segment {
    enum class Kind { bytes, end, reset };
    Kind kind;
    std::string bytes;
    int file;
    Time arrival;
  };
  void knock();
  void transmit(Segment::Kind kind, std::string bytes, int file);
  void deliver();
  void arrive(Segment segment);
  [[nodiscard]] bool is_cut() const;
  [[nodiscard]] std::size_t room() const;

  State state_ = State::fresh;
  std::shared_ptr<Stream> peer_;
  std::deque<Segment> out_;  // on the way from here
  Time last_arrival_ = 0;
  std::size_t outstanding_ = 0;  // bytes sent that the peer has not read
  std::string in_;
  std::size_t taken_ = 0;  // of in_
  std::uint64_t read_bytes_ = 0;
  std::uint64_t come_bytes_ = 0;
  std::deque<std::pair<std::uint64_t, int>> files_;  // that came, each with the byte at that place
  bool has_ended_ = false;                           // the peer sends no more
  bool is_broken_ = false;                           // nothing can be sent any more
  int error_ = 0;
};

class Listener final : public File {
 public:
  [[nodiscard]] std::uint32_t ready() const override { return backlog_.empty() ? 0U : EPOLLIN; }
  void on_close() override;
  void come(std::shared_ptr<Stream> stream);
  [[nodiscard]] std::shared_ptr<Stream> take();
  Address local;

 private:
  std::deque<std::shared_ptr<Stream>> backlog_;
};

class Network {
 public:
  Network();
  static Network& the();

  // How it is; set before anything runs.
  Time least_delay = 50 * kMicrosecond;  // between hosts, one way
  Time most_delay = 200 * kMicrosecond;
  std::size_t buffer_bytes = std::size_t{1} << 20;

  /// All that one host sends another takes so much longer.
  void detour(const std::string& from, const std::string& to, Time by) {
    detours_[{from, to}] = by;
  }
  /// A process sends another one something, which has not arrived.
  std::function<void(Stream& from)> on_message;

  // What befalls it.
  void cut(const std::string& from, const std::string& to);
  void mend(const std::string& from, const std::string& to);
  void mend_all();
  /// A machine without power: nothing comes from it or gets to it.
  void darken(const std::string& host);
  /// Flips one bit of what travels by TCP between processes, after so many bytes more.
  void flip_after(std::uint64_t bytes, unsigned bit) { flip_ = Flip{bytes, bit}; }
  /// Who sent and who received it; nothing: it has not happened.
  [[nodiscard]] const std::optional<std::pair<Process*, Process*>>& flipped() const {
    return flipped_;
  }
  /// Connections between two processes, one end of each.
  [[nodiscard]] std::vector<std::shared_ptr<Stream>> connections() const;

  // For sockets.
  [[nodiscard]] bool is_cut(const std::string& from, const std::string& to) const;
  [[nodiscard]] Time delay(const std::string& from, const std::string& to);
  [[nodiscard]] std::uint16_t free_port();
  [[nodiscard]] std::shared_ptr<Listener> listener_at(const Address& address,
                                                      const std::string& host) const;
  [[nodiscard]] bool listen(const std::shared_ptr<Listener>& listener, const std::string& host);
  void add(const std::shared_ptr<Stream>& stream) { streams_.push_back(stream); }
  void damage(const Stream& from, std::string& bytes);

 private:
  struct Flip {
    std::uint64_t bytes;
    unsigned bit;
  };
  [[nodiscard]] static std::string key_of(const Address& address, const std::string& host);

  std::set<std::pair<std::string, std::string>> cuts_;
  std::set<std::string> dark_;
  std::map<std::pair<std::string, std::string>, Time> detours_;
  std::map<std::string, std::weak_ptr<Listener>> listeners_;
  std::vector<std::weak_ptr<Stream>> streams_;
  std::optional<Flip> flip_;
  std::optional<std::pair<Process*, Process*>> flipped_;
  std::uint16_t next_port_ = 32768;
};

}  // namespace troupe::simulation
