#include "bench/summary.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <locale>
#include <sstream>

#include "troupe/core/check.h"

namespace troupe::bench {
namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string with_range(const Summary& values, const std::string& unit) {
  const char* between = values.min < 0 ? " to " : "-";
  return number_text(values.median) + unit + " [" + number_text(values.min) + between +
         number_text(values.max) + "]";
}

}  // namespace

Summary summarize(std::vector<double> values) {
  TROUPE_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const bool odd = values.size() % 2 == 1;
  const double median = odd ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::vector<double> ratios(const std::vector<double>& numerators,
                           const std::vector<double>& denominators) {
  TROUPE_CHECK_EQ(numerators.size(), denominators.size());
  std::vector<double> result;
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    result.push_back(numerators[i] / denominators[i]);
  }
  return result;
}

std::vector<double> rates(double factor, const std::vector<double>& seconds) {
  std::vector<double> result;
  result.reserve(seconds.size());
  for (const double value : seconds) result.push_back(factor / value);
  return result;
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::size_t kKib = 1024;
  constexpr std::size_t kMib = kKib * kKib;
  if (bytes >= kMib && bytes % kMib == 0) return std::to_string(bytes / kMib) + " MiB";
  if (bytes >= kKib && bytes % kKib == 0) return std::to_string(bytes / kKib) + " KiB";
  return std::to_string(bytes) + " B";
}

std::string number_text(double value) {
  const double size = std::fabs(value);
  return fixed(value, size < 10 ? 2 : (size < 100 ? 1 : 0));
}

std::string time_text(const Summary& seconds) {
  const bool long_ones = seconds.median >= 1e-3;
  const double unit = long_ones ? 1e-3 : 1e-6;
  return with_range({seconds.median / unit, seconds.min / unit, seconds.max / unit},
                    long_ones ? " ms" : " us");
}

std::string range_text(const Summary& values) { return with_range(values, ""); }
std::string ratio_text(const Summary& ratio) { return with_range(ratio, "x"); }

}  // namespace troupe::bench
