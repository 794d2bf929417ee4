// Pictures as files: JPEG and PNG, by Debian's libraries. Free of LibTorch;
// data/formats/image_folder.h makes a data set of a folder.
//
// A file is hostile until checked: its size and the pixels that its header announces are held
// against limits before memory for them is taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// Limits of what is read: bytes of a file, and pixels.
inline constexpr std::uint64_t kLargestImageFile = std::uint64_t{256} << 20;
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;  // 8192 x 8192
/// A small file has no more than kAlwaysPixels pixels, a large one no more than kMostRatio a byte.
/// Photographs have 2 to 20; 1000 are one colour.
inline constexpr std::int64_t kAlwaysPixels = std::int64_t{1} << 21;
inline constexpr std::int64_t kMostRatio = 2048;

/// 8 bits a channel, red, green, blue or grey alone; row after row from the top.
struct Image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 3;
  std::vector<std::uint8_t> pixels;  // [height, width, channels]
};

/// Reads a JPEG or PNG file; the content tells which, not the name. The bytes are those that Pillow
/// gives by ImageOps.exif_transpose(image).convert("RGB") or "L": upright by EXIF's orientation,
/// grey by ITU-R BT.601, without alpha, blended with nothing; gamma and profiles are not applied.
/// Of 16 bits the upper 8 are taken, as OpenCV does.
/// Shapes: `channels` is 3 or 1.
/// Throws: DataError naming the path, what was found and what to do, if the file is missing, not
/// readable, larger than kLargestImageFile, neither of both formats, damaged or truncated, of more
/// than kMostPixels or kMostRatio allow, or in the four colours of print; ConfigError for other
/// channels.
[[nodiscard]] Image read_image(const std::filesystem::path& path, int channels = 3);

/// A PNG file's bytes. `image` has pixels, in 1 or 3 channels.
/// Throws: ConfigError if libpng refuses its size.
[[nodiscard]] std::string to_png(const Image& image);

}  // namespace troupe
