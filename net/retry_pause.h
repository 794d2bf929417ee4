// RetryPause: how long to wait before the next attempt to reach somebody who is not there yet.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe {

/// 5, 10, 20, 40, 80, 100, 100, ... ms. Processes that are started together come within
/// milliseconds of each other; whoever does not is waited for without hurry.
class RetryPause {
 public:
  static constexpr std::chrono::milliseconds kFirst{5};
  static constexpr std::chrono::milliseconds kMost{100};

  [[nodiscard]] std::chrono::milliseconds next() {
    return std::exchange(pause_, std::min(2 * pause_, kMost));
  }

 private:
  std::chrono::milliseconds pause_ = kFirst;
};

}  // namespace troupe
