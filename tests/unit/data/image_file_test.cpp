#include "troupe/data/formats/image_file.h"

#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
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

/// A TIFF structure that says how a camera was held.
std::string exif(int orientation, bool big_endian) {
  const std::string low(1, static_cast<char>(orientation & 0xff));
  const std::string high(1, static_cast<char>(orientation >> 8));
  if (big_endian) {
    return std::string("MM\0*\0\0\0\x8\0\1\1\x12\0\3\0\0\0\1", 18) + high + low +
           std::string(6, '\0');
  }
  return std::string("II*\0\x8\0\0\0\1\0\x12\1\3\0\1\0\0\0", 18) + low + high +
         std::string(6, '\0');
}

/// The PNG file with it behind the header.
std::string with_exif(const std::string& file, const std::string& content) {
  const auto number = [](std::size_t value) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  const std::string named = "eXIf" + content;
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(named.data()), named.size());
  return file.substr(0, 33) + number(content.size()) + named + number(crc) + file.substr(33);
}

/// The JPEG file with it behind the first marker.
std::string with_app1(const std::string& file, const std::string& content) {
  const std::size_t length = content.size() + 2;
  return file.substr(0, 2) + "\xff\xe1" + static_cast<char>(length >> 8) +
         static_cast<char>(length) + content + file.substr(2);
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
    CHECK(clear == Pixels{9, 8, 7, 9, 8, 7});  // Pillow's convert("RGB"), OpenCV
    // Grey by ITU-R BT.601, as Pillow's convert("L"): 255 x 0.299 = 76.2.
    CHECK(read(png(1, 1, PNG_FORMAT_RGB, {255, 0, 0}), 1).pixels == Pixels{76});
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

  TEST_CASE("image: of 16 bits the upper 8, whatever the gamma") {
    // libpng's linear formats: 16 bits in the machine's order, and a gAMA chunk of 1.
    const Image image = read(png(2, 1, PNG_FORMAT_LINEAR_Y, {0x12, 0x80, 0x34, 0xff}));
    CHECK(image.pixels == Pixels{0x80, 0x80, 0x80, 0xff, 0xff, 0xff});
  }

  TEST_CASE("image: a picture is turned and mirrored as EXIF says, PNG and JPEG") {
    // As it is seen: 1 2 3 in the first row, 4 5 6 in the second. Kept by orientation:
    const std::vector<std::pair<std::uint32_t, Pixels>> kept = {
        {3, {1, 2, 3, 4, 5, 6}}, {3, {3, 2, 1, 6, 5, 4}}, {3, {6, 5, 4, 3, 2, 1}},
        {3, {4, 5, 6, 1, 2, 3}}, {2, {1, 4, 2, 5, 3, 6}}, {2, {3, 6, 2, 5, 1, 4}},
        {2, {6, 3, 5, 2, 4, 1}}, {2, {4, 1, 5, 2, 6, 3}}};
    for (std::size_t i = 0; i < kept.size(); ++i) {
      CAPTURE(i + 1);
      const auto& [width, pixels] = kept[i];
      const std::string file = png(width, 6 / width, PNG_FORMAT_GRAY, pixels);
      const auto orientation = static_cast<int>(i) + 1;
      const Image image = read(with_exif(file, exif(orientation, i % 2 == 0)), 1);
      CHECK(image.width == 3);
      CHECK(image.height == 2);
      CHECK(image.pixels == Pixels{1, 2, 3, 4, 5, 6});
    }
    const std::string file = jpeg(30, 20, JCS_RGB, {200, 100, 50});
    const Image turned = read(with_app1(file, "Exif" + std::string(2, '\0') + exif(6, true)));
    CHECK(turned.width == 20);
    CHECK(turned.height == 30);
  }

  TEST_CASE("image: EXIF that is damaged or says nothing turns nothing") {
    const std::string whole = exif(6, true);
    std::vector<std::string> all = {exif(0, true), exif(9, false), exif(0xffff, true), ""};
    for (std::size_t bytes = 1; bytes < 20; ++bytes) all.push_back(whole.substr(0, bytes));
    for (const std::size_t at : {0, 2, 4, 7, 10, 12}) {  // marks, place, tag, type
      all.push_back(whole);
      all.back()[at] = static_cast<char>(0xff);
    }
    all.push_back(whole);
    all.back().replace(4, 4, 4, '\xff');  // a directory at the end of the address space
    const std::string file = jpeg(30, 20, JCS_RGB, {200, 100, 50});
    for (const std::string& each : all) {
      CAPTURE(each.size());
      CHECK(read(with_app1(file, "Exif" + std::string(2, '\0') + each)).width == 30);
    }
    CHECK(read(with_app1(file, "http://ns.adobe.com/xap/1.0/")).width == 30);
    CHECK(read(with_app1(file, "")).width == 30);
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
