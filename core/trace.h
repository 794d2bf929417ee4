// Trace: what this process does when, as intervals on its threads, for a timeline to look at. While
// nothing is recorded, which is the usual case, an interval costs one load and one branch.
//
//   const Traced step("backward");                  // from here to the end of the scope
//   const Traced sum("all_reduce", bytes.size());
//
// Thread rule: any thread; start_trace() and stop_trace() in turn, by one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// An interval on a thread. Times are nanoseconds of the steady clock.
struct TracedInterval {
  std::string name;
  std::int64_t start = 0;
  std::int64_t duration = 0;
  std::uint32_t thread = 0;  // index into Trace::threads
  std::uint64_t bytes = 0;   // that it moves; 0: it does not say
};

struct Trace {
  std::vector<TracedInterval> intervals;  // in the order of their ends
  std::vector<std::string> threads;       // names
  std::uint64_t dropped = 0;              // intervals beyond the limit
};

inline constexpr std::size_t kMostIntervals = 2'000'000;

/// Forgets an earlier trace and records from here on; at most `limit` intervals are kept.
void start_trace(std::size_t limit = kMostIntervals);
/// Ends it. Intervals that did not begin and end in it are left out.
[[nodiscard]] Trace stop_trace();

/// How traces, and `top -H` within its 15 characters, call this thread from now on; `name` lives
/// for ever. Without a name: "thread".
void name_this_thread(const char* name) noexcept;

/// Now, on the clock of the intervals.
[[nodiscard]] std::int64_t trace_time() noexcept;

namespace detail {
extern std::atomic<bool> g_tracing;
}
[[nodiscard]] inline bool is_tracing() noexcept {
  return detail::g_tracing.load(std::memory_order_relaxed);
}

/// Adds an interval that ends now, on this thread; nothing while nothing is recorded.
void add_to_trace(const char* name, std::int64_t start, std::uint64_t bytes = 0) noexcept;

/// Its own lifetime as an interval. `name` outlives it.
class Traced {
 public:
  explicit Traced(const char* name, std::uint64_t bytes = 0) noexcept
      : name_(is_tracing() ? name : nullptr), bytes_(bytes) {
    if (name_ != nullptr) start_ = trace_time();
  }
  ~Traced() {
    if (name_ != nullptr) add_to_trace(name_, start_, bytes_);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

 private:
  const char* const name_;  // null: nothing was recorded when it began
  const std::uint64_t bytes_;
  std::int64_t start_ = 0;
};

}  // namespace troupe
