// What a test does with time: eventually() waits for something that nobody announces, and only as
// long as it takes; take_time() is what takes long. Nothing else in the tests sleeps.
#pragma once

#include <chrono>
#include <thread>

namespace troupe::testing {

/// Looks at `holds` every millisecond until it holds or `limit` is over. Returns whether it holds.
template <class Holds>
[[nodiscard]] bool eventually(const Holds& holds,
                              std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// For work of which only its duration matters. Never to wait until something has happened.
inline void take_time(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

}  // namespace troupe::testing
