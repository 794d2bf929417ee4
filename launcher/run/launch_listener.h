// The socket on which the chief meets its workers, bound before any of them starts: there is no
// moment at which another program could take the port.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>

namespace troupe {

/// Where the processes of one machine meet.
inline constexpr const char* kLoopback = "127.0.0.1";

class LaunchListener {
 public:
  /// Listens on a free port of `address`, which belongs to this machine.  Throws: EnvironmentError.
  explicit LaunchListener(
      const boost::asio::ip::address& address = boost::asio::ip::address_v4::loopback());
  ~LaunchListener() { close(); }
  LaunchListener(const LaunchListener&) = delete;
  LaunchListener& operator=(const LaunchListener&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Once the chief has it: when the chief ends, a late worker is refused instead of kept waiting.
  void close();

 private:
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace troupe
