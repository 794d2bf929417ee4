// Pictures as bytes of files, for tests.
#pragma once

#include <jpeglib.h>
#include <png.h>

#include <cstdint>
#include <cstdio>  // before jpeglib.h, which needs FILE
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::testing {

using Pixels = std::vector<std::uint8_t>;

/// `format`: PNG_FORMAT_RGB, PNG_FORMAT_GRAY, PNG_FORMAT_RGBA, ...
inline std::string png(std::uint32_t width, std::uint32_t height, std::uint32_t format,
                       const Pixels& pixels) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = 0;
  if (pixels.size() != PNG_IMAGE_SIZE(image) ||
      png_image_write_get_memory_size(image, size, 0, pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error("png");
  }
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error("png");
  }
  bytes.resize(size);
  return bytes;
}

/// Of one colour; `space`: JCS_RGB, JCS_GRAYSCALE or JCS_CMYK.
inline std::string jpeg(int width, int height, J_COLOR_SPACE space, const Pixels& colour,
                        bool progressive = false) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);  // ends the process where the test is wrong
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = static_cast<int>(colour.size());
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  Pixels line;
  for (int x = 0; x < width; ++x) line.insert(line.end(), colour.begin(), colour.end());
  JSAMPROW row = line.data();
  while (info.next_scanline < info.image_height) jpeg_write_scanlines(&info, &row, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  std::free(memory);
  return bytes;
}

}  // namespace troupe::testing
