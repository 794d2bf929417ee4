#include "troupe/distributed/net/connector.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>

#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/distributed/net/acceptor.h"

namespace connector_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

constexpr std::uint16_t kPort = 40'000;
constexpr std::chrono::seconds kLimit{60};

bool write_port_range(int first, int last) {
  std::ofstream file("/proc/sys/net/ipv4/ip_local_port_range");
  file << first << ' ' << last << std::flush;
  return file.good();
}

/// Gives the calling thread a network of its own, of loopback alone, with the one port for sockets
/// that ask for none. False: this process may not.
bool enter_network_of_one_port() {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq loopback{"lo", {}};
  loopback.ifr_flags = IFF_UP;
  const bool is_up = ::ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
  ::close(fd);
  return is_up && write_port_range(kPort, kPort);
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("connector: connected to itself is connected to nobody, and the port stays free") {
    std::async(std::launch::async, [] {
      if (!enter_network_of_one_port()) {
        MESSAGE("left out: it takes the right to make a network namespace");
        return;
      }
      boost::asio::io_context context;
      const Credentials worker = {test_secret(), false, "worker/1", 0};
      Connector connector(context, "127.0.0.1", kPort, worker, Purpose::control, "worker/0");
      bool connected = false;
      connector.start({}, "", [&](const ProvenSocket&) { connected = true; });
      const auto end = std::chrono::steady_clock::now() + kLimit;
      while (connector.trouble().empty() && !connected && context.run_one_until(end) > 0) {
      }
      CHECK(connector.trouble() == "Connection refused");
      REQUIRE(!connected);

      REQUIRE(write_port_range(kPort + 1, kPort + 2));
      Acceptor acceptor(context, "127.0.0.1", kPort);
      acceptor.start({test_secret(), false, "worker/0", 0}, [](const Introduction&) {});
      while (!connected && context.run_one_until(end) > 0) {
      }
      CHECK(connected);
    }).get();
  }
}

}  // namespace connector_test
