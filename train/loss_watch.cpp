#include "troupe/train/loss_watch.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace troupe::detail {
namespace {

constexpr std::int64_t kFewest = 200;
constexpr std::int64_t kStart = 20;
constexpr std::size_t kEnd = 100;
constexpr std::size_t kRow = 10;
constexpr std::size_t kExcepted = 2;  // of a row may be smaller
constexpr double kRise = 2;
constexpr double kPeak = 10;
constexpr double kFallen = 0.98;

}  // namespace

void LossWatch::add(double loss) {
  if (losses_++ == 0) first_ = loss;
  positive_ = positive_ && loss > 0;
  if (losses_ <= kStart) {
    if (!newest_.empty()) pair_ = std::max(pair_, std::min(newest_.back(), loss));
    peak_ = std::max(peak_, loss);
  }
  newest_.push_back(loss);
  if (newest_.size() > kEnd) newest_.pop_front();
  if (newest_.size() < kRow) return;
  std::array<double, kRow> row;
  std::copy(newest_.end() - kRow, newest_.end(), row.begin());
  std::nth_element(row.begin(), row.begin() + kExcepted, row.end());
  risen_ = std::max(risen_, row[kExcepted]);
}

bool LossWatch::has_diverged() const {
  if (losses_ < kFewest || !positive_) return false;
  const double highest = *std::max_element(newest_.begin(), newest_.end());
  const bool at_start = pair_ >= kRise * highest && peak_ >= kPeak * highest;
  return (at_start || risen_ >= kRise * highest) && last() >= kFallen * first_;
}

double LossWatch::last() const {
  const double sum = std::accumulate(newest_.begin(), newest_.end(), 0.0);
  return newest_.empty() ? 0 : sum / static_cast<double>(newest_.size());
}

}  // namespace troupe::detail
