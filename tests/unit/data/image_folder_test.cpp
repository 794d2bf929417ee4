#include "troupe/data/formats/image_folder.h"

#include <cstdio>

#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "tests/unit/data/image_files.h"
#include "troupe/core/error.h"

namespace image_folder_test {

namespace {

namespace fs = std::filesystem;
using troupe::ImageFolder;
using troupe::ImageFolderOptions;
using troupe::testing::jpeg;
using troupe::testing::Pixels;
using troupe::testing::png;
using troupe::testing::TempDir;
using troupe::testing::write_file;

void write_picture(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  write_file(path, bytes);
}

ImageFolderOptions small(std::int64_t height, std::int64_t width) {
  ImageFolderOptions options;
  options.height = height;
  options.width = width;
  options.scale = {1, 0};
  return options;
}

std::vector<at::Tensor> all_of(const ImageFolder& folder) {
  return folder.get(torch::arange(folder.size(), torch::kInt64));
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("image folder: classes by name, files by name, planes of one size") {
    const TempDir dir;
    write_picture(dir.path() / "pear" / "1.PNG",
                  png(2, 2, PNG_FORMAT_RGB, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    write_picture(dir.path() / "apple" / "b.jpeg", jpeg(2, 2, JCS_RGB, {200, 200, 200}));
    write_picture(dir.path() / "apple" / "a.png", png(2, 2, PNG_FORMAT_GRAY, {20, 20, 20, 20}));
    write_picture(dir.path() / "apple" / ".hidden.png", "x");
    write_picture(dir.path() / "apple" / "notes.txt", "x");
    write_picture(dir.path() / "apple" / "below" / "c.png", "x");
    const ImageFolder folder(dir.path(), small(2, 2));
    REQUIRE(folder.size() == 3);
    CHECK((folder.classes() == std::vector<std::string>{"apple", "pear"}));
    const auto batch = all_of(folder);
    CHECK(batch[1].equal(torch::tensor({0, 0, 1}, torch::kInt64)));
    CHECK((batch[0].scalar_type() == torch::kFloat32));
    CHECK(batch[0][0].equal(torch::full({3, 2, 2}, 20.F)));
    CHECK((batch[0][1] - 200).abs().max().item<float>() <= 2);
    CHECK(batch[0][2].equal(torch::tensor(
        {{{1.F, 4.F}, {7.F, 10.F}}, {{2.F, 5.F}, {8.F, 11.F}}, {{3.F, 6.F}, {9.F, 12.F}}})));
    // Into the memory of an earlier batch, if that has the size.
    auto again = all_of(folder);
    const void* const memory = again[0].fill_(7).data_ptr();
    folder.get_into(torch::arange(3, torch::kInt64), again);
    CHECK(again[0].data_ptr() == memory);
    CHECK(again[0].equal(batch[0]));
    again[1] = at::Tensor();  // somebody has it
    folder.get_into(torch::arange(2, torch::kInt64), again);
    CHECK(again[0].equal(batch[0].narrow(0, 0, 2)));
    CHECK(again[1].equal(batch[1].narrow(0, 0, 2)));
    // Scaled as they are gathered: byte x factor - shift.
    ImageFolderOptions options = small(2, 2);
    options.scale = {0.5, 1};
    options.classes = {"pear", "plum", "apple"};
    const auto scaled = all_of(ImageFolder(dir.path(), options));
    CHECK(scaled[1].equal(torch::tensor({0, 2, 2}, torch::kInt64)));
    CHECK(scaled[0][0].equal(batch[0][2] / 2 - 1));
  }

  TEST_CASE("image folder: a picture covers the size, and is cut alike on both sides") {
    const TempDir dir;
    // Six columns, of which the middle two are white: at 2 x 2 the others are cut off.
    Pixels wide;
    for (int row = 0; row < 2; ++row) wide.insert(wide.end(), {0, 0, 255, 255, 0, 0});
    write_picture(dir.path() / "c" / "a.png", png(6, 2, PNG_FORMAT_GRAY, wide));
    // Twice as large, of squares of one value: halved, a square is a pixel.
    Pixels large;
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 4; ++column) large.push_back(row / 2 * 10);
    }
    write_picture(dir.path() / "c" / "b.png", png(4, 8, PNG_FORMAT_GRAY, large));
    write_picture(dir.path() / "c" / "c.png", png(1, 1, PNG_FORMAT_GRAY, {9}));
    ImageFolderOptions options = small(2, 2);
    options.channels = 1;
    const auto pictures = all_of(ImageFolder(dir.path(), options))[0];
    CHECK(pictures[0].equal(torch::full({1, 2, 2}, 255.F)));
    const auto middle = pictures[1][0];
    CHECK(middle[0][0].item<float>() == doctest::Approx(10).epsilon(0.3));
    CHECK(middle[1][1].item<float>() == doctest::Approx(20).epsilon(0.3));
    CHECK((middle[0] - middle[0][0]).abs().max().item<float>() < 1e-3F);
    CHECK(pictures[2].equal(torch::full({1, 2, 2}, 9.F)));
  }

  TEST_CASE("image folder: what is missing or wrong is named") {
    const TempDir dir;
    CHECK_THROWS_WITH_AS(ImageFolder(dir.path() / "none"),
                         doctest::Contains("none' cannot be read"), troupe::DataError);
    CHECK_THROWS_WITH_AS(ImageFolder(dir.path()), doctest::Contains("has no folders"),
                         troupe::DataError);
    fs::create_directories(dir.path() / "empty");
    CHECK_THROWS_WITH_AS(ImageFolder(dir.path()), doctest::Contains("empty' has no pictures"),
                         troupe::DataError);
    write_picture(dir.path() / "empty" / "a.png", "x");
    ImageFolderOptions options;
    options.classes = {"full"};
    CHECK_THROWS_WITH_AS(ImageFolder(dir.path(), options),
                         doctest::Contains("a folder 'empty', which is no class"),
                         troupe::DataError);
    CHECK_THROWS_WITH_AS((void)all_of(ImageFolder(dir.path())),
                         doctest::Contains("a.png' is neither"), troupe::DataError);
    CHECK_THROWS_AS(ImageFolder(dir.path(), small(0, 5)), troupe::ConfigError);
    CHECK_THROWS_AS(ImageFolder(dir.path(), small(5, 1 << 20)), troupe::ConfigError);
    // A line of pixels that would become a picture of millions.
    write_picture(dir.path() / "empty" / "a.png", png(60000, 1, PNG_FORMAT_GRAY, Pixels(60000, 1)));
    CHECK_THROWS_WITH_AS((void)all_of(ImageFolder(dir.path(), small(8000, 8000))),
                         doctest::Contains("a picture of 60000 x 1"), troupe::DataError);
  }
}

}  // namespace image_folder_test
