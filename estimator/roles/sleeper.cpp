#include "estimator/roles/sleeper.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace troupe {

void ThreadSleeper::sleep(Seconds duration) {
  // More than the clock's whole nanoseconds can hold would be no wait at all.
  constexpr Seconds kLongest = std::chrono::hours(24 * 365);
  if (duration > Seconds(0)) std::this_thread::sleep_for(std::min(duration, kLongest));
}

}  // namespace troupe
