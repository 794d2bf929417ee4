#include "troupe/data/formats/cifar.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "examples/digits/shapes.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace cifar_test {

using troupe::DataError;
using troupe::kCifarPixels;
using troupe::read_cifar;
using troupe::testing::TempDir;

namespace {

/// Records with these labels; pixel p of record i is (i + p) % 256.
std::string file_of(const std::vector<int>& labels) {
  std::string bytes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes += static_cast<char>(labels[i]);
    for (std::int64_t p = 0; p < kCifarPixels; ++p) {
      bytes += static_cast<char>((static_cast<std::int64_t>(i) + p) % 256);
    }
  }
  return bytes;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("cifar: records of several files, one after the other") {
    const TempDir dir;
    write(dir / "a.bin", file_of({3, 9}));
    write(dir / "b.bin", file_of({0}));
    const auto [images, labels] = read_cifar(dir.path(), {"a.bin", "b.bin"});
    CHECK(labels == std::vector<std::uint8_t>{3, 9, 0});
    REQUIRE(images.size() == 3 * kCifarPixels);
    CHECK(images[0] == 0);
    CHECK(images[kCifarPixels - 1] == (kCifarPixels - 1) % 256);
    CHECK(images[kCifarPixels] == 1);  // the second record's first pixel
    CHECK(images[2 * kCifarPixels] == 0);
  }

  TEST_CASE("cifar: more records than are read at once") {
    const TempDir dir;
    std::vector<int> labels(1001, 1);
    labels.back() = 7;
    write(dir / "a.bin", file_of(labels));
    const auto [images, read] = read_cifar(dir.path(), {"a.bin"});
    REQUIRE(read.size() == 1001);
    CHECK(read[1000] == 7);
    CHECK(images[1000 * kCifarPixels + 5] == 1005 % 256);
  }

  TEST_CASE("cifar: what is wrong is said with file and record") {
    const TempDir dir;
    const auto refuses = [&](const std::string& message) {
      CHECK_THROWS_WITH_AS((void)read_cifar(dir.path(), {"a.bin"}),
                           doctest::Contains(message.c_str()), DataError);
    };
    const std::string shown = "'" + (dir / "a.bin").string() + "' ";
    refuses(shown + "cannot be opened: No such file");
    SUBCASE("empty") {
      write(dir / "a.bin", "");
      refuses(shown + "is empty");
    }
    SUBCASE("truncated") {
      write(dir / "a.bin", file_of({1, 2, 3}).substr(0, 2 * 3073 + 100));
      refuses(shown + "is truncated: it ends in record 2, after 100 of its 3073 bytes");
    }
    SUBCASE("a byte too many") {
      write(dir / "a.bin", file_of({1}) + "x");
      refuses(shown + "is truncated: it ends in record 1, after 1 of its 3073 bytes");
    }
    SUBCASE("a label above 9") {
      write(dir / "a.bin", file_of({1, 2, 10}));
      refuses(shown + "has label 10 in record 2, expected 0 to 9");
    }
    SUBCASE("a label that would be negative in a signed byte") {
      write(dir / "a.bin", file_of({255}));
      refuses(shown + "has label 255 in record 0");
    }
    SUBCASE("a directory") {
      std::filesystem::create_directory(dir / "a.bin");
      refuses(shown + "is a directory");
    }
    SUBCASE("far too large, before memory is taken") {
      write(dir / "a.bin", "x");
      std::filesystem::resize_file(dir / "a.bin", std::uintmax_t{3073} << 20);  // a hole
      refuses(shown + "has 3222274048 bytes, at most 1073741824 are read");
    }
  }

  TEST_CASE("shapes: the same on every machine, and a prefix of more") {
    const auto three = troupe::generate_shapes(3, 1);
    const auto more = troupe::generate_shapes(200, 1);
    CHECK(std::vector<std::uint8_t>(more.first.begin(), more.first.begin() + 3 * kCifarPixels) ==
          three.first);
    std::uint64_t sum = 0;
    for (const std::uint8_t byte : more.first) sum = sum * 31 + byte;
    CHECK(sum == 12846049287483410629U);
    CHECK(troupe::generate_shapes(3, 2).first != three.first);
    std::vector<int> counts(10, 0);
    for (const std::uint8_t label : more.second) ++counts.at(label);
    for (const int count : counts) CHECK(count > 5);
    CHECK_THROWS_AS((void)troupe::generate_shapes(-1, 1), troupe::ConfigError);
  }
}

}  // namespace cifar_test
