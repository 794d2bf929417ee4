// What summaries hold besides numbers and texts: histograms, and the size of an image.
#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <cmath>
#include <limits>

#include "troupe/core/check.h"
#include "troupe/report/event_message.h"

namespace troupe {
namespace {

constexpr std::string_view kPngStart("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);

}  // namespace

Histogram make_histogram(Span<const float> values, int bins) {
  TROUPE_CHECK(bins > 0);
  Histogram made;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++made.not_finite;
      continue;
    }
    const double wide = value;
    low = std::min(low, wide);
    high = std::max(high, wide);
    made.sum += wide;
    made.sum_of_squares += wide * wide;
  }
  if (low > high) return made;
  const int count = low < high ? bins : 1;
  const double width = (high - low) / count;
  for (int i = 0; i < count; ++i) made.edges.push_back(low + width * i);
  made.edges.push_back(high);
  made.counts.resize(static_cast<std::size_t>(count));
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double place = width > 0 ? (static_cast<double>(value) - low) / width : 0;
    ++made.counts[static_cast<std::size_t>(std::min(static_cast<int>(place), count - 1))];
  }
  return made;
}

std::optional<ImageSize> png_size(std::string_view bytes) {
  if (bytes.size() < 24 || bytes.substr(0, kPngStart.size()) != kPngStart) return std::nullopt;
  const auto* const numbers = reinterpret_cast<const unsigned char*>(bytes.data());
  return ImageSize{boost::endian::load_big_u32(numbers + 16),
                   boost::endian::load_big_u32(numbers + 20)};
}

}  // namespace troupe
