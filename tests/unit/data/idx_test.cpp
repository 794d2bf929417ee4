#include "troupe/data/formats/idx.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "troupe/core/failure.h"

namespace idx_test {

namespace {

namespace fs = std::filesystem;
using troupe::IdxArray;
using troupe::IdxType;
using troupe::testing::TempDir;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

bool equal(const IdxArray& a, const IdxArray& b) {
  return a.type == b.type && a.dims == b.dims && a.bytes == b.bytes;
}

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("idx: every type and number of dimensions comes back as written, plain and gzip") {
    const std::vector<IdxArray> arrays = {
        {IdxType::uint8, {3}, bytes_of<std::uint8_t>({0, 127, 255})},
        {IdxType::int8, {1, 3}, bytes_of<std::int8_t>({-128, 0, 127})},
        {IdxType::int16, {2, 1, 2}, bytes_of<std::int16_t>({-32768, 258, 0, 32767})},
        {IdxType::int32, {1, 1, 2, 1}, bytes_of<std::int32_t>({INT32_MIN, 0x01020304})},
        {IdxType::float32, {2}, bytes_of<float>({1.5F, -3e30F})},
        {IdxType::float64, {2, 1}, bytes_of<double>({1.25, -1e300})},
        {IdxType::float64, {0, 5}, {}},
    };
    TempDir dir;
    for (const IdxArray& array : arrays) {
      CAPTURE(static_cast<int>(array.type));
      troupe::write_idx(dir / "plain", array);
      CHECK(equal(troupe::read_idx(dir / "plain"), array));
      // The content decides, not the name.
      troupe::testing::write_file(dir / "packed", troupe::testing::gzip(content(dir / "plain")));
      CHECK(equal(troupe::read_idx(dir / "packed"), array));
    }
  }

  TEST_CASE("idx: bytes on the disk are big-endian, as the format says") {
    TempDir dir;
    troupe::write_idx(dir / "a", {IdxType::int16, {2}, bytes_of<std::int16_t>({0x0102, -2})});
    const char expected[] = "\0\0\x0B\x01\0\0\0\x02\x01\x02\xFF\xFE";
    CHECK(content(dir / "a") == std::string(expected, sizeof expected - 1));
  }

  TEST_CASE("idx: a large compressed file is unpacked whole") {
    std::vector<std::uint8_t> values(9'000'000);  // more than one step of memory
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::uint8_t>(i * i >> 7);
    }
    const IdxArray array{IdxType::uint8, {9'000'000}, bytes_of(values)};
    TempDir dir;
    troupe::write_idx(dir / "a", array);
    troupe::testing::write_file(dir / "a.gz", troupe::testing::gzip(content(dir / "a")));
    CHECK(equal(troupe::read_idx(dir / "a.gz"), array));
  }

  TEST_CASE("idx: writing replaces the file whole and leaves nothing else") {
    TempDir dir;
    troupe::write_idx(dir / "a", {IdxType::uint8, {3}, bytes_of<std::uint8_t>({1, 2, 3})});
    troupe::write_idx(dir / "a", {IdxType::uint8, {1}, bytes_of<std::uint8_t>({9})});
    CHECK(troupe::read_idx(dir / "a").bytes == bytes_of<std::uint8_t>({9}));
    CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
  }

  TEST_CASE("idx: what cannot be written says so and leaves nothing") {
    TempDir dir;
    const IdxArray array{IdxType::uint8, {1}, bytes_of<std::uint8_t>({9})};
    CHECK_THROWS_AS(troupe::write_idx(dir / "none" / "a", array), troupe::EnvironmentError);
    fs::create_directory(dir / "a");  // a directory in the way of the rename
    CHECK_THROWS_AS(troupe::write_idx(dir / "a", array), troupe::EnvironmentError);
    CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
    CHECK_THROWS_AS(troupe::write_idx(dir / "b", {IdxType::uint8, {2}, array.bytes}),
                    troupe::InternalError);
    CHECK_FALSE(fs::exists(dir / "b"));
  }

  TEST_CASE("idx: a file is found in each of its spellings, plain before compressed") {
    for (const std::string name : {"train-images.idx3-ubyte.gz", "train-images-idx3-ubyte.gz",
                                   "train-images.idx3-ubyte", "train-images-idx3-ubyte"}) {
      TempDir dir;
      troupe::testing::write_file(dir / name, "");
      CHECK(troupe::find_idx(dir.path(), "train-images-idx3-ubyte") == dir / name);
    }
    TempDir dir;
    troupe::testing::write_file(dir / "x-idx1-ubyte.gz", "");
    troupe::testing::write_file(dir / "x.idx1-ubyte", "");
    CHECK(troupe::find_idx(dir.path(), "x-idx1-ubyte") == dir / "x.idx1-ubyte");
  }

  TEST_CASE("idx: a file that is not found lists what was looked for") {
    TempDir dir;
    try {
      (void)troupe::find_idx(dir.path(), "train-images-idx3-ubyte");
      FAIL("nothing thrown");
    } catch (const troupe::DataError& error) {
      const std::string what = error.what();
      for (const char* const part :
           {dir.path().c_str(), "train-images-idx3-ubyte,", "train-images.idx3-ubyte,",
            "train-images-idx3-ubyte.gz,", "train-images.idx3-ubyte.gz.", "--data-dir"}) {
        CAPTURE(part);
        CHECK(what.find(part) != std::string::npos);
      }
    }
    CHECK_THROWS_WITH_AS((void)troupe::find_idx(dir / "none", "a"),
                         doctest::Contains("is not a directory"), troupe::DataError);
  }
}

}  // namespace idx_test
