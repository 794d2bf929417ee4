// Clock: where the time comes from, so that tests need no sleep. Monotonic; wall time appears only
// in log lines and file names.
#pragma once

#include <chrono>

namespace troupe {

using Seconds = std::chrono::duration<double>;

/// Source of monotonic time. Implementations are safe to call from any thread.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
};

/// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace troupe
