#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/idx.h"

namespace idx_malformed_test {

namespace {

namespace fs = std::filesystem;
using troupe::testing::gzip;
using troupe::testing::idx_header;
using troupe::testing::TempDir;
using troupe::testing::write_file;

struct Malformed {
  const char* name;
  std::string bytes;
  const char* complaint;  // part of the message
};

// The message of the DataError that read_idx gives; empty if it gives none.
std::string complaint_about(const fs::path& path) {
  try {
    (void)troupe::read_idx(path);
    return "";
  } catch (const troupe::DataError& error) {
    return error.what();
  }
}

std::string cut(std::string bytes, std::size_t from_end) {
  bytes.resize(bytes.size() - from_end);
  return bytes;
}

std::string flip(std::string bytes, std::size_t from_end) {
  bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 1);
  return bytes;
}

// A value per byte that does not compress to nothing.
std::string noise(std::size_t count) {
  std::string bytes;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

std::vector<Malformed> plain_cases() {
  const std::string good = idx_header(8, {5}) + "abcde";
  return {
      {"empty", "", "is empty"},
      {"one byte", std::string(1, '\0'), "holds 1 bytes, expected 4"},
      {"magic cut short", std::string(3, '\0'), "holds 3 bytes, expected 4"},
      {"dimension cut short", cut(good, 7), "holds 6 bytes, expected 8"},
      {"first byte not 0", "\1" + good.substr(1), "starts with the bytes 01 00 08 01"},
      {"text", "<!DOCTYPE html>", "starts with the bytes 3c 21 44 4f"},
      {"little-endian magic", {'\1', '\b', '\0', '\0'}, "starts with the bytes 01 08 00 00"},
      {"type 0", idx_header(0, {5}) + "abcde", "type 0x00"},
      {"type 0x0a", idx_header(10, {5}) + "abcde", "type 0x0a"},
      {"type 0x0f", idx_header(15, {5}) + "abcde", "type 0x0f"},
      {"type 0xff", idx_header(255, {5}) + "abcde", "type 0xff"},
      {"no dimension", idx_header(8, {}), "has 0 dimensions, expected 1 to 4"},
      {"five dimensions", idx_header(8, {1, 1, 1, 1, 1}) + "a", "has 5 dimensions"},
      {"255 dimensions", {'\0', '\0', '\b', '\xFF'}, "has 255 dimensions"},
      {"last byte missing", cut(good, 1), "has 12 bytes, expected 5 bytes of values"},
      {"values missing", cut(good, 5), "is truncated: it has 8 bytes"},
      {"one byte too many", good + "f", "is too long: it has 14 bytes"},
      {"little-endian count",
       {'\0', '\0', '\b', '\1', '\5', '\0', '\0', '\0', 'a', 'b', 'c', 'd', 'e'},
       "expected 83886080 bytes"},
      {"0 examples but bytes", idx_header(8, {0, 28, 28}) + "a", "is too long"},
      {"product is 2^64", idx_header(8, {65536, 65536, 65536, 65536}) + "a", "64 bits"},
      {"product wraps to a small one", idx_header(8, {0x80000001, 0x80000001, 4, 1}) + "abcd",
       "64 bits"},
      {"bytes overflow, values do not", idx_header(14, {0x80000000, 0x80000000, 2}) + "a",
       "64 bits"},
      {"largest dimensions", idx_header(14, {~0u, ~0u, ~0u, ~0u}), "64 bits"},
      {"4 GiB announced", idx_header(8, {~0u}) + "abc", "expected 4294967295 bytes"},
      {"float64 with the bytes of uint8", idx_header(14, {5}) + "abcde", "expected 40 bytes"},
  };
}

std::vector<Malformed> gzip_cases() {
  const std::string values = noise(4000);
  const std::string good = gzip(idx_header(8, {4000}) + values);
  return {
      {"two bytes of gzip", "\x1F\x8B", "truncated"},
      {"gzip header only", good.substr(0, 10), "truncated"},
      {"gzip cut in the middle", cut(good, good.size() / 2), "is truncated"},
      {"gzip without its length", cut(good, 4), "is truncated"},
      {"gzip without CRC and length", cut(good, 8), "is truncated"},
      {"wrong CRC", flip(good, 8), "is corrupt: zlib says \"incorrect data check\""},
      {"wrong length", flip(good, 4), "is corrupt: zlib says \"incorrect length check\""},
      {"unknown compression method", good.substr(0, 2) + "\7" + good.substr(3), "is corrupt"},
      {"reserved block type", good.substr(0, 10) + "\7" + good.substr(11), "is corrupt"},
      {"values missing inside", gzip(idx_header(8, {4001}) + values),
       "holds 4008 bytes unpacked, expected 4009"},
      {"a byte too many inside", gzip(idx_header(8, {3999}) + values), "continues after the 4007"},
      {"second member behind", good + gzip("more"), "continues after the 4008"},
      {"announces more than can be", gzip(idx_header(8, {1u << 30})), "announces 1073741824 bytes"},
      {"overflow inside", gzip(idx_header(8, {65536, 65536, 65536, 65536})), "64 bits"},
      {"text inside", gzip("hello, world"), "starts with the bytes 68 65 6c 6c"},
      {"nothing inside", gzip(""), "holds 0 bytes unpacked, expected 4"},
  };
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("idx: every malformed file is refused, by name and with the reason") {
    TempDir dir;
    std::vector<Malformed> cases = plain_cases();
    for (Malformed& more : gzip_cases()) cases.push_back(std::move(more));
    for (const Malformed& malformed : cases) {
      CAPTURE(malformed.name);
      const fs::path path = dir / "file";
      write_file(path, malformed.bytes);
      const std::string complaint = complaint_about(path);
      CAPTURE(complaint);
      CHECK(complaint.find(malformed.complaint) != std::string::npos);
      CHECK(complaint.find(path.string()) != std::string::npos);
      CHECK(complaint.find(" Fix: ") != std::string::npos);
    }
  }

  TEST_CASE(
      "idx: every truncation and every flipped bit of a compressed file is refused or harmless") {
    const std::string plain = idx_header(8, {40}) + noise(40);
    const std::string good = gzip(plain);
    TempDir dir;
    write_file(dir / "good", good);
    const auto expected = troupe::read_idx(dir / "good");
    for (std::size_t size = 0; size < good.size(); ++size) {
      CAPTURE(size);
      write_file(dir / "file", good.substr(0, size));
      CHECK_FALSE(complaint_about(dir / "file").empty());
    }
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      CAPTURE(bit);
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      write_file(dir / "file", bytes);
      // gzip's header has fields that say nothing about the content, such as its time.
      if (complaint_about(dir / "file").empty()) {
        CHECK(troupe::read_idx(dir / "file").bytes == expected.bytes);
      }
    }
  }

  TEST_CASE("idx: a header that lies takes no memory") {
    TempDir dir;
    // Sparse: the announced terabyte is not there, the size check must come before the allocation.
    write_file(dir / "plain", idx_header(8, {1u << 20, 1u << 20}));
    // A file of 2 MB may unpack to 200 MB; it holds nothing.
    write_file(dir / "packed", gzip(idx_header(8, {190'000'000})) + std::string(2'000'000, '\0'));
    rlimit before = {};
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
    const rlimit small = {rlim_t{1} << 30, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &small) == 0);
#endif
    const std::string about_plain = complaint_about(dir / "plain");
    const std::string about_packed = complaint_about(dir / "packed");
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(about_plain.find("expected 1099511627776 bytes") != std::string::npos);
    CHECK(about_packed.find("holds 8 bytes unpacked, expected 190000008") != std::string::npos);
  }

  TEST_CASE("idx: a small file does not unpack to a large one") {
    TempDir dir;
    // 100 MB of zeros in 100 kB, as the header says and deflate allows.
    write_file(dir / "bomb", gzip(idx_header(8, {100'000'000}) + std::string(100'000'000, '\0')));
    const std::string about_bomb = complaint_about(dir / "bomb");
    CHECK(about_bomb.find("announces 100000000 bytes of values") != std::string::npos);
    CHECK(about_bomb.find("gunzip") != std::string::npos);
    // Up to 64 MiB any file may.
    write_file(dir / "zeros", gzip(idx_header(8, {60'000'000}) + std::string(60'000'000, '\0')));
    CHECK(troupe::read_idx(dir / "zeros").bytes.size() == 60'000'000);
  }

  TEST_CASE("idx: the caller looks at the header before memory is taken") {
    TempDir dir;
    write_file(dir / "file", idx_header(8, {2, 3}) + "abcdef");
    const auto refuse = [](const troupe::IdxArray& header) {
      CHECK(header.bytes.capacity() == 0);
      CHECK(header.dims == std::vector<std::int64_t>{2, 3});
      throw troupe::DataError("not these.", "give others.");
    };
    CHECK_THROWS_WITH_AS((void)troupe::read_idx(dir / "file", refuse),
                         doctest::Contains("not these"), troupe::DataError);
  }

  TEST_CASE("idx: what is no readable file is refused") {
    TempDir dir;
    CHECK(complaint_about(dir / "none").find("No such file") != std::string::npos);
    CHECK(complaint_about(dir.path()).find("is a directory") != std::string::npos);
    REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);  // must not wait for a writer
    CHECK(complaint_about(dir / "pipe").find("is not a regular file") != std::string::npos);
    write_file(dir / "file", "x");
    CHECK(complaint_about(dir / "file" / "below").find("Not a directory") != std::string::npos);
  }

  TEST_CASE("idx: a file without permission is refused and says which right is missing") {
    TempDir dir;
    write_file(dir / "file", idx_header(8, {1}) + "a");
    REQUIRE(::chmod((dir / "file").c_str(), 0) == 0);
    const bool root = ::geteuid() == 0;  // root may read anything: become nobody for a moment
    if (root) REQUIRE(::seteuid(65534) == 0);
    const std::string complaint = complaint_about(dir / "file");
    if (root) REQUIRE(::seteuid(0) == 0);
    CHECK(complaint.find("Permission denied") != std::string::npos);
    CHECK(complaint.find("readable for this user") != std::string::npos);
  }
}

}  // namespace idx_malformed_test
