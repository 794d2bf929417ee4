// examples/gan/png.h -- grey pictures as PNG files. Free of LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace pictures {

/// A picture of at least a pixel, row by row from the top; 0 black, 255 white.
struct Grey {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> pixels;  // [height * width]
};

/// Writes a file, over one that is there: under another name first, so that a reader sees a
/// whole one. Makes the directories above it.  Throws: troupe::EnvironmentError.
void write_png(const std::filesystem::path& path, const Grey& picture);

}  // namespace pictures
