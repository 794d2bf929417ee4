#include "examples/gan/png.h"

#include <png.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

using troupe::testing::TempDir;

namespace {

using Bytes = std::vector<std::uint8_t>;

/// What another program sees in the file.
pictures::Grey read_png(const std::filesystem::path& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_file(&image, path.c_str()) != 0);
  CHECK(image.format == PNG_FORMAT_GRAY);
  Bytes pixels(PNG_IMAGE_SIZE(image));
  REQUIRE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) != 0);
  return {image.width, image.height, pixels};
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("png: what is written is read back, grey by grey") {
    const TempDir dir;
    const Bytes pixels = {0, 1, 2, 253, 254, 255};
    pictures::write_png(dir / "a.png", {3, 2, pixels});
    const pictures::Grey read = read_png(dir / "a.png");
    CHECK(read.width == 3);
    CHECK(read.height == 2);
    CHECK(read.pixels == pixels);
  }

  TEST_CASE("png: a file is written whole, with its directories, over one that is there") {
    const TempDir dir;
    const auto path = dir / "samples/deep/step-1.png";
    pictures::write_png(path, {1, 1, {7}});
    pictures::write_png(path, {2, 1, {7, 8}});
    CHECK(read_png(path).pixels == Bytes{7, 8});
    const auto entries = std::filesystem::directory_iterator(path.parent_path());
    CHECK(std::distance(entries, {}) == 1);
  }

  TEST_CASE("png: a place that cannot be written is named") {
    const TempDir dir;
    std::ofstream(dir / "file") << "not a directory";
    const auto path = dir / "file/step-1.png";
    CHECK_THROWS_WITH_AS(pictures::write_png(path, {1, 1, {7}}), doctest::Contains(path.c_str()),
                         troupe::EnvironmentError);
  }
}
