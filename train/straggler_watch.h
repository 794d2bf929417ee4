// StragglerWatch: who waits for whom. Where workers take each step together, a step takes as long
// as the slowest worker's part of it, and the others wait.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/span.h"

namespace troupe::detail {

class StragglerWatch {
 public:
  /// `tasks`: the workers, by rank.
  explicit StragglerWatch(std::vector<std::string> tasks);

  [[nodiscard]] const std::vector<std::string>& tasks() const { return tasks_; }
  /// A step took `seconds`, and worker k was at work for busy[k] of them: the time in which it
  /// neither waited for another nor moved its values. Shapes: busy [tasks].
  void add(Span<const double> busy, double seconds);
  /// The share of the time for which each worker waited until the slowest of the step was ready.
  /// Empty: no step was added.
  [[nodiscard]] std::vector<std::pair<std::string, double>> waiting() const;
  /// Says which worker has been slower than the others by kSlower for kMinute; once for each.
  /// Empty: there is nothing new to say.
  [[nodiscard]] std::string take_warning() { return std::exchange(warning_, {}); }

  static constexpr double kMinute = 60;  // seconds
  static constexpr double kSlower = 0.25;

 private:
  void judge();

  std::vector<std::string> tasks_;
  std::vector<double> waited_;  // seconds
  double seconds_ = 0;
  // Of the minute under way.
  std::vector<double> busy_;
  double minute_ = 0;
  std::int64_t steps_ = 0;
  std::vector<char> named_;  // by rank: in a warning
  std::string warning_;
};

/// "; waiting for the slowest worker: worker/0 1 %, worker/1 23 % of the time"; of more than eight
/// workers the least, the most and the mean; empty where nothing is known.
[[nodiscard]] std::string to_line(const std::vector<std::pair<std::string, double>>& waiting);

}  // namespace troupe::detail
