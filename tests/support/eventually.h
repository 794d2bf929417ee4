// eventually: waits for something that nobody announces, and only as long as it takes.
#pragma once

#include <chrono>
#include <thread>

namespace troupe::testing {

/// Looks at `holds` every millisecond until it holds or `limit` is over. Returns whether it holds.
template <class Holds>
[[nodiscard]] bool eventually(const Holds& holds, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace troupe::testing
