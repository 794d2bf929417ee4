// FakeClock: time that stands still until the test moves it.
#pragma once

#include <chrono>

#include "troupe/core/clock.h"

namespace troupe::testing {

class FakeClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return now_; }
  /// Rounded up, so that waiting for the rest of a period always gets there.
  void advance(Seconds duration) { now_ += std::chrono::ceil<TimePoint::duration>(duration); }

 private:
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace troupe::testing
