// Deadline: the moment by which a blocking call must have ended. There is no "for ever".
#pragma once

#include <algorithm>
#include <chrono>

namespace troupe {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// `limit` from now; the limit is kept for messages.
  [[nodiscard]] static Deadline in(std::chrono::milliseconds limit) {
    return Deadline(Clock::now(), limit);
  }
  [[nodiscard]] Clock::time_point when() const { return start_ + limit_; }
  [[nodiscard]] bool expired() const { return Clock::now() >= when(); }
  /// Time left, never negative.
  [[nodiscard]] std::chrono::milliseconds remaining() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when() - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }
  [[nodiscard]] std::chrono::milliseconds limit() const { return limit_; }
  [[nodiscard]] double elapsed_seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  [[nodiscard]] double limit_seconds() const {
    return std::chrono::duration<double>(limit_).count();
  }

 private:
  Deadline(Clock::time_point start, std::chrono::milliseconds limit)
      : start_(start), limit_(limit) {}

  Clock::time_point start_;
  std::chrono::milliseconds limit_;
};

}  // namespace troupe
