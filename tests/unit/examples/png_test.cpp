#include "examples/gan/png.h"

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

using pictures::Grey;
using troupe::testing::TempDir;

namespace {

using Bytes = std::vector<std::uint8_t>;

struct Chunk {
  std::string type;
  Bytes content;
};

std::uint32_t big_endian(const Bytes& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | bytes.at(at + i);
  return value;
}

/// The chunks behind the signature, whose CRCs are right.
std::vector<Chunk> chunks_of(const Bytes& png) {
  REQUIRE(Bytes(png.begin(), png.begin() + 8) ==
          Bytes{0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A});
  std::vector<Chunk> chunks;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t length = big_endian(png, at);
    REQUIRE(at + 12 + length <= png.size());
    const std::uint8_t* const type = png.data() + at + 4;
    CHECK(big_endian(png, at + 8 + length) ==
          static_cast<std::uint32_t>(crc32(0, type, static_cast<uInt>(4 + length))));
    chunks.push_back({std::string(type, type + 4), Bytes(type + 4, type + 4 + length)});
    at += 12 + length;
  }
  return chunks;
}

Bytes inflated(const Bytes& packed, std::size_t size) {
  Bytes plain(size + 1);
  uLongf got = plain.size();
  REQUIRE(uncompress(plain.data(), &got, packed.data(), packed.size()) == Z_OK);
  plain.resize(got);
  return plain;
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("png: header, rows behind a filter byte each, end") {
    const auto chunks = chunks_of(pictures::encode_png({3, 2, {0, 1, 2, 253, 254, 255}}));
    REQUIRE(chunks.size() == 3);
    CHECK(chunks[0].type == "IHDR");
    CHECK(chunks[0].content == Bytes{0, 0, 0, 3, 0, 0, 0, 2, 8, 0, 0, 0, 0});
    CHECK(chunks[1].type == "IDAT");
    CHECK(inflated(chunks[1].content, 8) == Bytes{0, 0, 1, 2, 0, 253, 254, 255});
    CHECK(chunks[2].type == "IEND");
    CHECK(chunks[2].content.empty());
  }

  TEST_CASE("png: the shortest file, byte by byte") {
    // One black pixel; the CRC of IEND is that of the specification's own example.
    const Bytes png = pictures::encode_png({1, 1, {0}});
    const Bytes end(png.end() - 12, png.end());
    CHECK(end == Bytes{0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82});
  }

  TEST_CASE("png: sizes that are not those of the pixels are refused") {
    CHECK_THROWS_AS((void)pictures::encode_png({2, 2, {0, 0, 0}}), troupe::InternalError);
    CHECK_THROWS_AS((void)pictures::encode_png({0, 5, {}}), troupe::InternalError);
    CHECK_THROWS_AS((void)pictures::encode_png({-1, -1, {0}}), troupe::InternalError);
    CHECK_THROWS_AS((void)pictures::encode_png({65536, 1, Bytes(65536)}), troupe::InternalError);
  }

  TEST_CASE("png: a file is written whole, with its directories, over one that is there") {
    const TempDir dir;
    const auto path = dir / "samples/deep/step-1.png";
    pictures::write_png(path, {1, 1, {7}});
    pictures::write_png(path, {2, 1, {7, 8}});
    std::ifstream file(path, std::ios::binary);
    const Bytes content{std::istreambuf_iterator<char>(file), {}};
    CHECK(content == pictures::encode_png({2, 1, {7, 8}}));
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
