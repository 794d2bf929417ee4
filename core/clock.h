// Clock: the source of time, so that tests need not sleep. Monotonic; wall time appears only in
// what runs tell of themselves.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

namespace troupe {

using Seconds = std::chrono::duration<double>;

/// Source of monotonic time. Implementations are safe to call from any thread.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
};

/// The machine's steady clock; it lives as long as the process.
[[nodiscard]] const Clock& steady_clock();

/// Seconds since 1970.
using WallTime = double;
[[nodiscard]] WallTime system_time();

/// How a role or an exporter waits, so that tests need no sleep.
using Sleep = std::function<void(Seconds duration)>;
/// Blocks the thread.
void sleep_for(Seconds duration);

/// The moment by which a blocking call must have ended. There is no infinite deadline.
class Deadline {
 public:
  /// `limit` from now; the limit is kept for messages.
  [[nodiscard]] static Deadline in(std::chrono::milliseconds limit) {
    return Deadline(std::chrono::steady_clock::now(), limit);
  }
  [[nodiscard]] Clock::TimePoint when() const { return start_ + limit_; }
  [[nodiscard]] bool expired() const { return std::chrono::steady_clock::now() >= when(); }
  /// Time left, never negative.
  [[nodiscard]] std::chrono::milliseconds remaining() const {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(when() - std::chrono::steady_clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }
  [[nodiscard]] std::chrono::milliseconds limit() const { return limit_; }
  [[nodiscard]] double elapsed_seconds() const {
    return Seconds(std::chrono::steady_clock::now() - start_).count();
  }
  [[nodiscard]] double limit_seconds() const { return Seconds(limit_).count(); }

 private:
  Deadline(Clock::TimePoint start, std::chrono::milliseconds limit)
      : start_(start), limit_(limit) {}

  Clock::TimePoint start_;
  std::chrono::milliseconds limit_;
};

}  // namespace troupe
