// Summary: what is reported of one thing measured several times, and how it is written.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::bench {

/// Middle and extremes of a series.
struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
};

/// Of at least one value.
[[nodiscard]] Summary summarize(std::vector<double> values);

/// Element by element; both series were measured in the same rounds, so that a disturbance of one
/// round touches one ratio.
[[nodiscard]] std::vector<double> ratios(const std::vector<double>& numerators,
                                         const std::vector<double>& denominators);
/// `factor` / value, for every value: seconds to rates.
[[nodiscard]] std::vector<double> rates(double factor, const std::vector<double>& seconds);

/// "4 B", "16 KiB", "64 MiB"
[[nodiscard]] std::string bytes_text(std::size_t bytes);
/// "3.6", "12.40": enough digits to tell medians apart, no more.
[[nodiscard]] std::string number_text(double value);
/// "3.6 us [3.5-4.0]", in the unit that suits the median.
[[nodiscard]] std::string time_text(const Summary& seconds);
/// "7832 [7630-7856]"
[[nodiscard]] std::string range_text(const Summary& values);
/// "27.9x [24.0-31.2]"
[[nodiscard]] std::string ratio_text(const Summary& ratio);

}  // namespace troupe::bench
