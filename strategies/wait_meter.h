// WaitMeter: for how long a worker has stood still until other workers' values came.
//
// Thread rule: one thread, the one that made it. What another thread waits for is no wait of the
// worker's until this one asks for it; there during() only calls.
#pragma once

#include <c10/util/ScopeExit.h>

#include <cstdint>
#include <thread>

#include "troupe/core/trace.h"

namespace troupe::detail {

class WaitMeter {
 public:
  /// Calls `wait`, and counts how long it takes, also where it throws.
  template <class Wait>
  decltype(auto) during(Wait&& wait) {
    const auto counted = c10::make_scope_exit([this, begin = trace_time()] {
      if (std::this_thread::get_id() == owner_) nanoseconds_ += trace_time() - begin;
    });
    return wait();
  }
  [[nodiscard]] double seconds() const { return static_cast<double>(nanoseconds_) / 1e9; }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  std::int64_t nanoseconds_ = 0;
};

}  // namespace troupe::detail
