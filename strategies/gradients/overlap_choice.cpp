#include "strategies/gradients/overlap_choice.h"

#include <algorithm>

#include "core/text.h"

namespace troupe::detail {
namespace {

// Overlapping costs a thread; a gain that may be noise is none. Of 16 pairs of equals, 12 or more
// go to the same one given side in 1 of 26 cases (binomial, p = 1/2).
constexpr double kLeastGain = 0.98;
constexpr double kPairs = OverlapChoice::kMeasured / 2;
constexpr double kLeastPairs = 0.75 * kPairs;

/// off on on off, so that a machine that becomes slower or faster favours neither.
bool overlaps(std::size_t step) { return step % 4 == 1 || step % 4 == 2; }

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

const char* to_string(Overlap overlap) {
  switch (overlap) {
    case Overlap::on:
      return "on";
    case Overlap::off:
      return "off";
    case Overlap::automatic:
      break;
  }
  return "auto";
}

void OverlapChoice::add(double seconds, bool possible) {
  if (!is_measuring()) return;
  if (!started_) {
    started_ = possible;
    on_ = started_;  // the first of the warm-up
    return;
  }
  if (taken_ >= kWarmUp) seconds_[on_ ? 1 : 0].push_back(seconds);
  ++taken_;
  on_ = taken_ >= kWarmUp && overlaps(taken_ - kWarmUp);
}

std::array<double, 3> OverlapChoice::findings() const {
  const auto& [after, overlapped] = seconds_;
  double faster = 0;
  for (std::size_t pair = 0; pair < std::min(after.size(), overlapped.size()); ++pair) {
    if (overlapped[pair] < after[pair]) faster += 1;
  }
  return {median_of(after), median_of(overlapped), faster};
}

std::string OverlapChoice::decide(const std::array<double, 3>& sums, int workers) {
  decided_ = true;
  const auto [after, overlapped, faster] = sums;
  on_ = overlapped < kLeastGain * after && faster >= kLeastPairs * workers;
  const auto milliseconds = [&](double sum) { return 1e3 * sum / workers; };
  return text("gradients are summed ", on_ ? "while backward computes" : "after backward",
              " from here on: a step takes ", milliseconds(overlapped), " ms overlapped, ",
              milliseconds(after), " ms without (medians of ", kMeasured / 2, " steps each), and ",
              faster / workers, " of ", kPairs,
              " pairs of steps were faster overlapped (means over the workers)");
}

}  // namespace troupe::detail
