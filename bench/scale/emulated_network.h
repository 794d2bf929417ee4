// EmulatedNetwork: carries packets between network namespaces as slowly as a NetworkModel says.
//
// The sockets, TCP and IP in the namespaces are the kernel's; only the cable is made here. One
// thread reads every packet that leaves an interface, and writes it to the receiver's when it would
// have arrived. It runs at real-time priority where it may, so that a busy machine does not look
// like a slow network.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "bench/scale/network_model.h"

namespace troupe::bench {

class EmulatedNetwork {
 public:
  /// `ports` are descriptors of enter_network(), by number; they are this object's from now on.
  /// Throws: EnvironmentError.
  EmulatedNetwork(std::vector<int> ports, const NetworkShape& shape);
  ~EmulatedNetwork();
  EmulatedNetwork(const EmulatedNetwork&) = delete;
  EmulatedNetwork& operator=(const EmulatedNetwork&) = delete;

  struct Counts {
    std::uint64_t packets = 0;  // bursts of segments count once
    std::uint64_t bytes = 0;
    std::uint64_t lost = 0;   // that an interface did not take
    double latest_by = 0;     // seconds by which a packet was delivered too late, at most
    double late_seconds = 0;  // of all of them together
  };
  /// So far. Thread: any.
  [[nodiscard]] Counts counts() const;

 private:
  class Carrier;
  std::unique_ptr<Carrier> carrier_;
  std::thread thread_;
};

}  // namespace troupe::bench
