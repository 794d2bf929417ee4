#include "bench/scale/network_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/text.h"

namespace troupe::bench {
namespace {

constexpr std::uint32_t kNetwork = 0x0A4D0000;  // 10.77.0.0/16
constexpr std::uint32_t kMask = 0xFFFF0000;
// Packets that the interface keeps until they are read; what comes beyond is dropped by the kernel.
// Only root may ask for so many; others have the kernel's 500.
constexpr int kQueuedPackets = 4'000;

[[noreturn]] void fail(const char* what) {
  throw EnvironmentError(text("no emulated network: ", what, ": ", std::strerror(errno), "."),
                         "run it as root on a Linux with /dev/net/tun, or without --delay and "
                         "--rate: then over loopback.");
}

void write_line(const char* file, const std::string& line) {
  std::ofstream out(file);
  out << line << std::flush;
  if (!out) fail(file);
}

class ControlSocket {
 public:
  ControlSocket() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) fail("socket");
  }
  ~ControlSocket() { ::close(fd_); }
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  void set(unsigned long request, ifreq& what, const char* name) const {
    if (::ioctl(fd_, request, &what) != 0) fail(name);
  }
  void ask(unsigned long request, ifreq& what) const { ::ioctl(fd_, request, &what); }

 private:
  int fd_;
};

ifreq request_for(const char* interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  return request;
}

void put_address(ifreq& request, std::uint32_t address) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(address);
  std::memcpy(&request.ifr_addr, &in, sizeof(in));
}

void bring_up(const char* interface, const ControlSocket& control) {
  ifreq request = request_for(interface);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  control.set(SIOCSIFFLAGS, request, "SIOCSIFFLAGS");
}

/// One congestion control everywhere, and no slow start after the pauses of a training step.
void settle_tcp() {
  std::ofstream("/proc/sys/net/ipv4/tcp_slow_start_after_idle") << "0\n" << std::flush;
  std::ofstream cubic("/proc/sys/net/ipv4/tcp_congestion_control");
  if (!(cubic << "cubic\n" << std::flush)) {
    std::ofstream("/proc/sys/net/ipv4/tcp_congestion_control") << "reno\n" << std::flush;
  }
}

}  // namespace

void gain_network_rights() {
  const uid_t user = ::getuid();
  const gid_t group = ::getgid();
  if (user == 0) return;
  if (::unshare(CLONE_NEWUSER) != 0) fail("a user namespace");
  write_line("/proc/self/setgroups", "deny");
  write_line("/proc/self/uid_map", text("0 ", user, " 1"));
  write_line("/proc/self/gid_map", text("0 ", group, " 1"));
}

std::string address_of_port(int number) {
  in_addr address{};
  address.s_addr = htonl(kNetwork + static_cast<std::uint32_t>(number) + 1);
  char written[INET_ADDRSTRLEN];
  return ::inet_ntop(AF_INET, &address, written, sizeof(written));
}

int port_of_address(std::uint32_t address) {
  if ((address & kMask) != kNetwork) return -1;
  return static_cast<int>(address & ~kMask) - 1;
}

int enter_network(int number) {
  if (::unshare(CLONE_NEWNET) != 0) fail("a network namespace");
  const int fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail("/dev/net/tun");
  try {
    const ControlSocket control;
    ifreq tun = request_for("port0");
    tun.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    if (::ioctl(fd, TUNSETIFF, &tun) != 0) fail("TUNSETIFF");
    // Whole bursts of segments in one packet: a tenth of the time that single ones would cost.
    if (::ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) fail("TUNSETOFFLOAD");
    ifreq address = request_for("port0");
    put_address(address, kNetwork + static_cast<std::uint32_t>(number) + 1);
    control.set(SIOCSIFADDR, address, "SIOCSIFADDR");
    put_address(address, kMask);
    control.set(SIOCSIFNETMASK, address, "SIOCSIFNETMASK");
    ifreq queue = request_for("port0");
    queue.ifr_qlen = kQueuedPackets;
    control.ask(SIOCSIFTXQLEN, queue);
    bring_up("lo", control);
    bring_up("port0", control);
    settle_tcp();
  } catch (...) {
    ::close(fd);
    throw;
  }
  return fd;
}

}  // namespace troupe::bench
