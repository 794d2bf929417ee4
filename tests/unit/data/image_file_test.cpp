#include "troupe/data/formats/image_file.h"

#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "tests/unit/data/image_files.h"
#include "troupe/core/error.h"

namespace {

using troupe::Image;
using troupe::testing::jpeg;
using troupe::testing::Pixels;
using troupe::testing::png;
using troupe::testing::TempDir;
using troupe::testing::write_file;

Image read(const std::string& content, int channels = 3) {
  const TempDir dir;
  write_file(dir.path() / "p", content);
  return troupe::read_image(dir.path() / "p", channels);
}

bool is_near(const Pixels& pixels, const Pixels& colour) {
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (std::abs(pixels[i] - colour[i % colour.size()]) > 2) return false;
  }
  return !pixels.empty();
}

/// The file with other numbers of pixels in its header, and the CRC that belongs to them.
std::string with_size(std::string file, std::uint32_t width, std::uint32_t height) {
  const auto put = [&](std::size_t at, std::uint32_t number) {
    for (const int shift : {24, 16, 8, 0}) file[at++] = static_cast<char>(number >> shift);
  };
  put(16, width);
  put(20, height);
  put(29,
      static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17)));
  return file;
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("image: PNG pixels are read to the bit, grey, coloured and transparent") {
    const Pixels six = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 255};
    const Image image = read(png(3, 2, PNG_FORMAT_RGB, six));
    CHECK(image.width == 3);
    CHECK(image.height == 2);
    CHECK(image.channels == 3);
    CHECK(image.pixels == six);
    CHECK(read(png(2, 1, PNG_FORMAT_GRAY, {7, 200})).pixels == Pixels{7, 7, 7, 200, 200, 200});
    CHECK(read(png(2, 1, PNG_FORMAT_GRAY, {7, 200}), 1).pixels == Pixels{7, 200});
    const Pixels clear = read(png(2, 1, PNG_FORMAT_RGBA, {9, 8, 7, 255, 9, 8, 7, 0})).pixels;
    CHECK(clear == Pixels{9, 8, 7, 0, 0, 0});
  }

  TEST_CASE("image: JPEG, baseline and progressive, coloured and grey") {
    const Pixels colour = {200, 100, 50};
    for (const bool progressive : {false, true}) {
      const Image image = read(jpeg(37, 21, JCS_RGB, colour, progressive));
      CHECK(image.width == 37);
      CHECK(image.height == 21);
      CHECK(image.pixels.size() == 37 * 21 * 3);
      CHECK(is_near(image.pixels, colour));
    }
    CHECK(is_near(read(jpeg(8, 8, JCS_GRAYSCALE, {90})).pixels, {90, 90, 90}));
    CHECK(is_near(read(jpeg(8, 8, JCS_RGB, colour), 1).pixels, {124}));  // luminance, JFIF 1.02
  }

  TEST_CASE("image: what is damaged, too large or no picture is refused with its path") {
    const std::string jpeg_file = jpeg(64, 64, JCS_RGB, {200, 100, 50});
    const std::string png_file = png(2, 2, PNG_FORMAT_RGB, Pixels(12, 5));
    struct Wrong {
      std::string content;
      const char* complaint;
    };
    std::string broken = png_file;
    broken[broken.size() - 20] ^= 1;
    std::string huge = jpeg_file;  // the frame header: FF C0, length, precision, height, width
    const std::size_t frame = huge.find("\xff\xc0");
    huge.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
    const std::vector<Wrong> all = {
        {"", "is neither a JPEG nor a PNG file"},
        {"GIF89a", "is neither"},
        {"\xff\xd8\xff", "is a damaged JPEG file"},
        {jpeg_file.substr(0, 20), "is a damaged JPEG file"},
        {jpeg_file.substr(0, jpeg_file.size() - 30), "is a damaged JPEG file: Premature end"},
        {huge, "has 65500 x 65500 pixels"},
        {jpeg(8, 8, JCS_CMYK, {1, 2, 3, 4}), "four colours of print"},
        {png_file.substr(0, 8), "is a damaged PNG file"},
        {png_file.substr(0, png_file.size() - 20), "is a damaged PNG file"},
        {broken, "is a damaged PNG file"},
        {with_size(png_file, 1 << 20, 1 << 20), "is a damaged PNG file"},
        {with_size(png_file, 8193, 8192), "has 8193 x 8192 pixels, expected 1 to 67108864"},
        {with_size(png_file, 0, 1), "is a damaged PNG file"},
        {with_size(png_file, 8000, 8000), "announces 8000 x 8000 pixels, too many for"},
        {with_size(png_file, 1024, 1024), "is a damaged PNG file"}};
    for (const Wrong& wrong : all) {
      CAPTURE(wrong.complaint);
      CHECK_THROWS_WITH_AS((void)read(wrong.content), doctest::Contains(wrong.complaint),
                           troupe::DataError);
    }
    CHECK_THROWS_AS((void)read(png_file, 4), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)troupe::read_image("/no/such.png"),
                         doctest::Contains("'/no/such.png' cannot be opened"), troupe::DataError);
  }

  TEST_CASE("image: a file above the limit is not read") {
    const TempDir dir;
    const auto path = dir.path() / "large.png";
    write_file(path, png(1, 1, PNG_FORMAT_GRAY, {1}));
    std::filesystem::resize_file(path, troupe::kLargestImageFile + 1);  // a hole
    CHECK_THROWS_WITH_AS((void)troupe::read_image(path), doctest::Contains("more than 268435456"),
                         troupe::DataError);
  }
}
