#include "strategies/overlap_choice.h"

#include <algorithm>

#include "core/text.h"

namespace troupe::detail {
namespace {

// Overlapping costs a thread; a gain that is no more than noise is none.
constexpr double kLeastGain = 0.99;

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

std::array<double, 2> OverlapChoice::medians() const {
  return {median_of(seconds_[0]), median_of(seconds_[1])};
}

std::string OverlapChoice::decide(const std::array<double, 2>& sums, int workers) {
  decided_ = true;
  on_ = sums[1] < kLeastGain * sums[0];
  const auto milliseconds = [&](double sum) { return 1e3 * sum / workers; };
  return text("gradients are summed ", on_ ? "while backward computes" : "after backward",
              " from here on: a step takes ", milliseconds(sums[1]), " ms overlapped, ",
              milliseconds(sums[0]), " ms without (medians of ", kMeasured / 2,
              " steps each, mean over the workers)");
}

}  // namespace troupe::detail
