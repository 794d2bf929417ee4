// StepClock: what steps took, by the clock and by what the kernel counted for this process. Page
// faults tell a slow allocator from slow arithmetic, processor time a thread that takes a core from
// the steps.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace troupe::bench {

class StepClock {
 public:
  void start() {
    usage_ = usage_now();
    time_ = Clock::now();
  }
  /// Per step, of `steps` since start(): {"seconds", "cpu_seconds", "page_faults"}.
  [[nodiscard]] nlohmann::ordered_json stop(std::int64_t steps) const {
    const std::chrono::duration<double> seconds = Clock::now() - time_;
    const rusage usage = usage_now();
    const auto count = static_cast<double>(steps);
    return {{"seconds", seconds.count() / count},
            {"cpu_seconds", (cpu_seconds(usage) - cpu_seconds(usage_)) / count},
            {"page_faults", static_cast<double>(usage.ru_minflt - usage_.ru_minflt) / count}};
  }

 private:
  using Clock = std::chrono::steady_clock;

  static rusage usage_now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage;
  }
  static double cpu_seconds(const rusage& usage) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  rusage usage_{};
  Clock::time_point time_;
};

}  // namespace troupe::bench
