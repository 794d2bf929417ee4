#include "troupe/train/straggler_watch.h"

#include <algorithm>
#include <cmath>

#include "troupe/core/check.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

// Of the time: what the others wait less than that is not worth a word.
constexpr double kWorthAWord = 0.05;
constexpr std::size_t kNamed = 8;  // workers in a line

/// Shapes: [n], n at least 1.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string percent(double share) { return text(std::lround(share * 100), " %"); }

std::string milliseconds(double seconds) { return text(std::round(seconds * 1e5) / 100, " ms"); }

}  // namespace

StragglerWatch::StragglerWatch(std::vector<std::string> tasks)
    : tasks_(std::move(tasks)),
      waited_(tasks_.size(), 0.0),
      busy_(tasks_.size(), 0.0),
      named_(tasks_.size(), 0) {}

void StragglerWatch::add(Span<const double> busy, double seconds) {
  TROUPE_CHECK_EQ(busy.size(), tasks_.size());
  const double slowest = *std::max_element(busy.begin(), busy.end());
  for (std::size_t k = 0; k < busy.size(); ++k) {
    waited_[k] += slowest - busy[k];
    busy_[k] += busy[k];
  }
  seconds_ += seconds;
  minute_ += seconds;
  ++steps_;
  if (minute_ < kMinute) return;
  judge();
  std::fill(busy_.begin(), busy_.end(), 0.0);
  minute_ = 0;
  steps_ = 0;
}

void StragglerWatch::judge() {
  const auto worst = static_cast<std::size_t>(
      std::distance(busy_.begin(), std::max_element(busy_.begin(), busy_.end())));
  std::vector<double> others = busy_;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(worst));
  const double usual = median(std::move(others));
  const double more = busy_[worst] - usual;
  if (more < kSlower * usual || more < kWorthAWord * minute_ || named_[worst] != 0) return;
  named_[worst] = 1;
  const auto steps = static_cast<double>(steps_);
  warning_ =
      text(tasks_[worst], " is slower than the others: ", milliseconds(busy_[worst] / steps),
           " of work a step for a minute, ", milliseconds(usual / steps), " of most, who wait ",
           percent(more / minute_),
           " of the time. Look for other programs on its machine, fewer or slower cores, or a "
           "slow disk; --profile shows what it does.");
}

std::vector<std::pair<std::string, double>> StragglerWatch::waiting() const {
  std::vector<std::pair<std::string, double>> shares;
  if (seconds_ <= 0) return shares;
  for (std::size_t k = 0; k < tasks_.size(); ++k) {
    shares.emplace_back(tasks_[k], std::min(1.0, waited_[k] / seconds_));
  }
  return shares;
}

std::string to_line(const std::vector<std::pair<std::string, double>>& waiting) {
  if (waiting.empty()) return "";
  std::string line = "; waiting for the slowest worker: ";
  if (waiting.size() <= kNamed) {
    for (const auto& [task, share] : waiting) line += text(task, " ", percent(share), ", ");
    return line.substr(0, line.size() - 2) + " of the time";
  }
  const auto [least, most] =
      std::minmax_element(waiting.begin(), waiting.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  double sum = 0;
  for (const auto& [task, share] : waiting) sum += share;
  return text(line, least->first, " ", percent(least->second), " (least), ", most->first, " ",
              percent(most->second), " (most), ",
              percent(sum / static_cast<double>(waiting.size())), " of the time (mean)");
}

}  // namespace troupe::detail
