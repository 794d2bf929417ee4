#include "examples/gan/png.h"

#include <png.h>

#include <string>
#include <system_error>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace pictures {
namespace {

[[noreturn]] void fail_to_write(const std::filesystem::path& path, const std::string& reason) {
  throw troupe::EnvironmentError(
      troupe::text("the picture '", path.string(), "' cannot be written: ", reason, "."),
      "name a directory with --samples-dir where this user may write and there is room.");
}

}  // namespace

void write_png(const std::filesystem::path& path, const Grey& picture) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) fail_to_write(path, error.message());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_GRAY;
  const std::filesystem::path temporary = path.string() + ".tmp";
  if (png_image_write_to_file(&image, temporary.c_str(), /*convert_to_8_bit=*/0,
                              picture.pixels.data(), /*row_stride=*/0, /*colormap=*/nullptr) == 0) {
    std::filesystem::remove(temporary, error);
    fail_to_write(path, image.message);
  }
  std::filesystem::rename(temporary, path, error);
  if (error) fail_to_write(path, error.message());
}

}  // namespace pictures
