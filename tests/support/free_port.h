// A TCP port of loopback that nobody listens on, for a process or a task to listen on soon.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <stdexcept>

namespace troupe::testing {

/// Below the ports that Linux gives to whoever asks for any (32768 and up), so that no other
/// program's connection takes it between this call and the listening; never the same twice in a
/// process. Tests that run at once begin at different ones, by chance.
inline std::uint16_t free_port() {
  constexpr unsigned kFirst = 20'000;
  constexpr unsigned kPorts = 12'768;
  static std::atomic<unsigned> next{std::random_device{}()};
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto port = static_cast<std::uint16_t>(kFirst + next++ % kPorts);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (bound) return port;
  }
  throw std::runtime_error("no free port on loopback");
}

}  // namespace troupe::testing
