// OverlapChoice: whether buckets are reduced while backward computes. Asked for, or found out: the
// first steps are taken both ways by turns, and the faster way stays. Free of LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "options/strategy_options.h"

namespace troupe::detail {

/// As --overlap spells it: auto, on or off.
[[nodiscard]] const char* to_string(Overlap overlap);

class OverlapChoice {
 public:
  explicit OverlapChoice(Overlap wish) : wish_(wish), on_(wish == Overlap::on) {}

  /// Whether the step under way overlaps, where it can.
  [[nodiscard]] bool on() const { return on_; }

  /// After every step that took `seconds`. `possible`: one that overlaps can be taken now.
  void add(double seconds, bool possible);

  /// Whether enough steps have been seen, so that decide() must follow. Like on(), the same on
  /// every worker that made the same calls.
  [[nodiscard]] bool is_due() const { return is_measuring() && taken_ == kWarmUp + kMeasured; }
  /// What this worker found: the median seconds of a step after backward, of one that overlapped,
  /// and of how many pairs of neighbours, one of each kind, the latter was the faster one.
  [[nodiscard]] std::array<double, 3> findings() const;
  /// Given the sum of findings() over all workers. Returns what there is to say about it.
  std::string decide(const std::array<double, 3>& sums, int workers);

  static constexpr std::size_t kWarmUp = 2;     // one of each kind
  static constexpr std::size_t kMeasured = 32;  // half of each kind, neighbours in pairs

 private:
  [[nodiscard]] bool is_measuring() const { return wish_ == Overlap::automatic && !decided_; }

  Overlap wish_;
  bool on_;
  bool started_ = false;
  bool decided_ = false;
  std::size_t taken_ = 0;                       // steps since it started
  std::array<std::vector<double>, 2> seconds_;  // by whether they overlapped
};

}  // namespace troupe::detail
