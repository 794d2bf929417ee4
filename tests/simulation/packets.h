// Packets: a process's end of a SOCK_SEQPACKET pair. The other end is held outside every process,
// by who started it; what is said travels for a while in both directions, and stays in order.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/simulation/descriptors.h"
#include "troupe/core/span.h"

namespace troupe::simulation {

class Packets final : public File, public std::enable_shared_from_this<Packets> {
 public:
  /// `on_packet` gets what the process sends when it has arrived, also after its end.
  Packets(std::string process, std::function<void(const std::string&)> on_packet)
      : process_(std::move(process)), on_packet_(std::move(on_packet)) {}

  [[nodiscard]] std::uint32_t ready() const override {
    return in_.empty() && !has_ended_ ? 0U : EPOLLIN;
  }
  void on_close() override { shut_down(); }

  // As the calls of these names; the result, or -errno.
  long send(Span<const std::byte> packet);
  long receive(Span<std::byte> into);
  void shut_down();

  /// From outside.
  void tell(std::string packet);
  /// When the last packet of the process arrives.
  [[nodiscard]] Time last_arrival() const { return last_out_; }

  Time most_delay = 100 * kMicrosecond;

 private:
  [[nodiscard]] Time arrival_after(Time& last) const;

  const std::string process_;  // its name
  const std::function<void(const std::string&)> on_packet_;
  std::deque<std::string> in_;
  Time last_in_ = 0;
  Time last_out_ = 0;
  bool has_ended_ = false;
};

}  // namespace troupe::simulation
