// NetworkPort: a network namespace with one interface, whose other end is a file descriptor.
//
// Needs the right to make namespaces: root, or a kernel that lets a user have a namespace of their
// own, and /dev/net/tun open to that user. What is made here is gone with the process.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::bench {

/// To be called while the process has one thread: where it is not root, it becomes root of a user
/// namespace of its own.  Throws: EnvironmentError.
void gain_network_rights();

/// The address that port `number` has, from 0: "10.77.0.1".
[[nodiscard]] std::string address_of_port(int number);
/// The inverse, of an address in host order; -1: of no port.
[[nodiscard]] int port_of_address(std::uint32_t address);
inline constexpr int kMaxPorts = 65'000;

/// Puts the calling thread, and the threads that it starts from now on, into a new namespace whose
/// only way out is port `number`. Returns the descriptor at which the packets come out, each after
/// a header of kPacketHeaderBytes; the caller closes it.
/// Throws: EnvironmentError.
[[nodiscard]] int enter_network(int number);

/// The virtio_net_hdr before each packet: what is left to do of checksum and segments. It is handed
/// on as it came.
inline constexpr std::size_t kPacketHeaderBytes = 10;

}  // namespace troupe::bench
