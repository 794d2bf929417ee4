#include "troupe/data/formats/exif.h"

#include <utility>

namespace troupe::detail {
namespace {

/// Numbers of a TIFF structure, in the byte order that it begins with; 0 beyond its end.
class TiffNumbers {
 public:
  explicit TiffNumbers(Span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool well_formed() const {
    const bool either = big_endian() || (byte(0) == 'I' && byte(1) == 'I');
    return either && number(2, 2) == 42;
  }
  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t length) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < length; ++i) {
      value = value << 8 | byte(at + (big_endian() ? i : length - 1 - i));
    }
    return value;
  }

 private:
  [[nodiscard]] bool big_endian() const { return byte(0) == 'M' && byte(1) == 'M'; }
  [[nodiscard]] std::uint32_t byte(std::size_t at) const {
    return at < bytes_.size() ? bytes_[at] : 0;
  }

  Span<const std::uint8_t> bytes_;
};

}  // namespace

int exif_orientation(Span<const std::uint8_t> tiff) {
  constexpr std::uint32_t kOrientation = 0x0112;
  constexpr std::uint32_t kShort = 3;
  constexpr std::size_t kEntryBytes = 12;
  const TiffNumbers numbers(tiff);
  if (!numbers.well_formed()) return 1;
  const std::size_t directory = numbers.number(4, 4);
  const std::size_t entries = numbers.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    if (numbers.number(entry, 2) != kOrientation || numbers.number(entry + 2, 2) != kShort)
      continue;
    const std::uint32_t value = numbers.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  // Where the file's first row and first column are seen (Exif 2.32, 4.6.4 A): rows on a side from
  // 5 on; the first row below or right for 3, 4, 6 and 7, the first column for 2, 3, 7 and 8.
  const bool sideways = orientation >= 5;
  const bool rows_back =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool columns_back = orientation == 2 || orientation == 3 || orientation >= 7;
  Image seen = {image.height, image.width, image.channels, {}};
  if (sideways) std::swap(seen.height, seen.width);
  seen.pixels.reserve(image.pixels.size());
  for (std::int64_t y = 0; y < seen.height; ++y) {
    for (std::int64_t x = 0; x < seen.width; ++x) {
      std::int64_t row = sideways ? x : y;
      std::int64_t column = sideways ? y : x;
      if (rows_back) row = image.height - 1 - row;
      if (columns_back) column = image.width - 1 - column;
      const auto pixel = image.pixels.begin() + (row * image.width + column) * image.channels;
      seen.pixels.insert(seen.pixels.end(), pixel, pixel + image.channels);
    }
  }
  return seen;
}

}  // namespace troupe::detail
