// LossWatch: whether a training has diverged, from the losses of its steps. A divergence often ends
// in a model that is dead, whose loss is finite and constant: nothing else would show it.
#pragma once

#include <cstdint>
#include <deque>

#include "troupe/core/error.h"

namespace troupe {

/// Asynchronous training has diverged: its loss rose, and did not fall below its start again.
class DivergedError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "diverged"; }
};

namespace detail {

/// Says so only where it is certain: there are at least 200 losses, all above 0; the mean of the
/// last hundred is at least 0.98 times the first; and in between the loss rose: two in a row among
/// the first twenty, one of them at least ten times, or eight of some ten in a row, were at least
/// twice as large as each of the last hundred. Losses that only scatter hardly ever do that.
class LossWatch {
 public:
  void add(double loss);
  [[nodiscard]] bool has_diverged() const;

  [[nodiscard]] double first() const { return first_; }
  /// Mean of the last hundred.
  [[nodiscard]] double last() const;

 private:
  std::int64_t losses_ = 0;
  double first_ = 0;
  bool positive_ = true;
  double pair_ = 0;            // the largest number that two in a row reached at the start
  double peak_ = 0;            // the largest loss at the start
  double risen_ = 0;           // the largest number that eight of ten in a row reached
  std::deque<double> newest_;  // at most a hundred
};

}  // namespace detail
}  // namespace troupe
