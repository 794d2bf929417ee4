#include "troupe/core/clock.h"

#include <thread>

namespace troupe {

const Clock& steady_clock() {
  class SteadyClock final : public Clock {
   public:
    [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
  };
  static const SteadyClock clock;
  return clock;
}

WallTime system_time() {
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

void sleep_for(Seconds duration) {
  // More than the clock's whole nanoseconds can hold would be no wait at all.
  constexpr Seconds kLongest = std::chrono::hours(24 * 365);
  if (duration > Seconds(0)) std::this_thread::sleep_for(std::min(duration, kLongest));
}

}  // namespace troupe
