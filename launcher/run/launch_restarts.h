// When a whole group is started again: decisions only, so that every one of them can be tested.
#pragma once

#include <chrono>
#include <optional>

namespace troupe {

/// How one start of the group ended.
struct GroupEnd {
  int exit_code = 0;
  bool failed = false;      // a worker or a node caused it; the evaluator alone is none of these
  bool can_recover = true;  // all that is needed for another start is still there
};

/// Exit codes that a new start may mend (docs/errors.md): a signal killed a process, or it lost
/// another one. Requests to stop are none of them.
[[nodiscard]] bool is_worth_a_restart(int exit_code);

class RestartPolicy {
 public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kFirstPause{1'000};
  /// No pause is longer; a start that lived as long has made progress, and pauses begin anew.
  static constexpr Milliseconds kLongestPause{60'000};

  explicit RestartPolicy(int most) : most_(most) {}

  /// The pause before the next start, which this counts; unset: there is none.
  [[nodiscard]] std::optional<Milliseconds> after(const GroupEnd& end, Milliseconds lived);
  /// One worker is started again.
  void count_worker() { ++used_; }
  [[nodiscard]] int most() const { return most_; }
  [[nodiscard]] int used() const { return used_; }

 private:
  int most_;
  int used_ = 0;
  Milliseconds next_pause_ = kFirstPause;
};

}  // namespace troupe
