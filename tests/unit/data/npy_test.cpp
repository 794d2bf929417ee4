#include "troupe/data/formats/npy.h"

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "tests/unit/data/npy_files.h"
#include "troupe/core/error.h"
#include "troupe/core/span.h"

namespace npy_test {

namespace {

using troupe::NpyArray;
using troupe::NpyType;
using troupe::testing::gzip;
using troupe::testing::little;
using troupe::testing::npy;
using troupe::testing::npy_of;
using troupe::testing::TempDir;
using troupe::testing::write_file;
using troupe::testing::zip;
using Dims = std::vector<std::int64_t>;

template <class Value>
std::vector<Value> values_of(const NpyArray& array) {
  std::vector<Value> values(array.bytes.size() / sizeof(Value));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

NpyArray read(const std::string& content) {
  const TempDir dir;
  write_file(dir.path() / "a.npy", content);
  return troupe::read_npy(dir.path() / "a.npy");
}

std::map<std::string, NpyArray> read_archive(const std::string& content) {
  const TempDir dir;
  write_file(dir.path() / "a.npz", content);
  return troupe::read_npz(dir.path() / "a.npz");
}

/// By numpy 1.24.2: savez_compressed(x=array([1.5, -2], '>f4'), label=array(7)).
constexpr unsigned char kByNumpy[] = {
    0x50, 0x4b, 0x03, 0x04, 0x14, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x5b, 0x5c,
    0x24, 0xcc, 0x4b, 0x00, 0x00, 0x00, 0x88, 0x00, 0x00, 0x00, 0x05, 0x00, 0x14, 0x00, 0x78, 0x2e,
    0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x88, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4b,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50,
    0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x97, 0x66, 0xa2,
    0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a,
    0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a,
    0x46, 0x3a, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x14, 0x00, 0x2e, 0xfb, 0x03, 0x0c, 0x0c, 0x40, 0xc4,
    0x00, 0x00, 0x50, 0x4b, 0x03, 0x04, 0x14, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00,
    0x23, 0xb8, 0xf0, 0x6c, 0x46, 0x00, 0x00, 0x00, 0x88, 0x00, 0x00, 0x00, 0x09, 0x00, 0x14, 0x00,
    0x6c, 0x61, 0x62, 0x65, 0x6c, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x88, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x46, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17,
    0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e,
    0xa5, 0xa0, 0x6e, 0x93, 0x69, 0xa1, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98,
    0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67,
    0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x14, 0x01, 0x2e, 0x76, 0x06,
    0x08, 0x00, 0x00, 0x50, 0x4b, 0x01, 0x02, 0x14, 0x03, 0x14, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00,
    0x00, 0x21, 0x00, 0x5b, 0x5c, 0x24, 0xcc, 0x4b, 0x00, 0x00, 0x00, 0x88, 0x00, 0x00, 0x00, 0x05,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x78, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x01, 0x02, 0x14, 0x03, 0x14, 0x00, 0x00, 0x00,
    0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x23, 0xb8, 0xf0, 0x6c, 0x46, 0x00, 0x00, 0x00, 0x88, 0x00,
    0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01,
    0x82, 0x00, 0x00, 0x00, 0x6c, 0x61, 0x62, 0x65, 0x6c, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x05,
    0x06, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x02, 0x00, 0x6a, 0x00, 0x00, 0x00, 0x03, 0x01, 0x00,
    0x00, 0x00, 0x00,
};

std::string by_numpy() {
  return std::string(reinterpret_cast<const char*>(kByNumpy), sizeof kByNumpy);
}

struct Wrong {
  std::string content;
  const char* complaint;
};

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("npy: every type, both byte orders, any shape, all formats") {
    const NpyArray array =
        read(npy_of("<i2", "(2, 3)", little(1, 2) + little(0xFFFE, 2) + little(0, 8)));
    CHECK(array.type == NpyType::int16);
    CHECK(array.dims == Dims{2, 3});
    CHECK(values_of<std::int16_t>(array) == std::vector<std::int16_t>{1, -2, 0, 0, 0, 0});

    const NpyArray swapped = read(npy_of(">f8", "()", std::string("\x3f\xf8\0\0\0\0\0\0", 8)));
    CHECK(swapped.dims.empty());
    CHECK(values_of<double>(swapped) == std::vector<double>{1.5});
    CHECK(read(npy_of("|b1", "(2,)", std::string("\0\1", 2))).type == NpyType::boolean);
    CHECK(read(npy_of("|u1", "(0, 28)", "")).dims == Dims{0, 28});
    CHECK(read(npy_of("<f2", "(1,)", "ab")).type == NpyType::float16);
    CHECK(read(gzip(npy_of("<f4", "(1,)", "abcd"))).bytes.size() == 4);

    const std::string header = "{'shape': (1,), 'fortran_order': True, 'descr': \"|i1\"}";
    for (const char format : {2, 3}) {
      const std::string head = std::string("\x93NUMPY", 6) + format + '\0';
      CHECK(read(head + little(header.size(), 4) + header + "x").type == NpyType::int8);
    }
  }

  TEST_CASE("npy: Fortran's order") {
    const auto fortran = [](const std::string& shape, const std::string& values) {
      return read(npy("{'descr': '>i2', 'fortran_order': True, 'shape': " + shape + ", }", values));
    };
    std::string values;  // 0 to 23 by numpy.asfortranarray, big-endian: shape (2, 3, 4)
    for (int k = 0; k < 4; ++k) {
      for (int j = 0; j < 3; ++j) {
        for (int i = 0; i < 2; ++i) values += {'\0', static_cast<char>(12 * i + 4 * j + k)};
      }
    }
    const NpyArray array = fortran("(2, 3, 4)", values);
    CHECK(array.dims == Dims{2, 3, 4});
    std::vector<std::int16_t> rows(24);
    std::iota(rows.begin(), rows.end(), 0);
    CHECK(values_of<std::int16_t>(array) == rows);
    CHECK(values_of<std::int16_t>(fortran("(2,)", values.substr(0, 4))).size() == 2);
    CHECK(values_of<std::int16_t>(fortran("()", values.substr(0, 2))).size() == 1);
    CHECK(fortran("(3, 0, 2)", "").bytes.empty());
  }

  TEST_CASE("npy: a malformed file is refused whole, and says why") {
    const std::string good = npy_of("<f4", "(2,)", "12345678");
    const std::vector<Wrong> all = {
        {"", "truncated: it holds 0 bytes, expected 8 (the magic bytes)"},
        {"\x93NUMPX\x01\x01" + good, "does not begin as a .npy file"},
        {std::string("\x93NUMPY\x04\x00", 8) + good, "does not begin as a .npy file"},
        {good.substr(0, 9), "the length of the header"},
        {good.substr(0, 50), "the header"},
        {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12) + good, "header of 4294967295 bytes"},
        {good.substr(0, good.size() - 1), "is truncated: it holds 135 bytes, expected 136"},
        {good + "9", "continues after"},
        {npy_of("<f4", "(9223372036854775807, 9223372036854775807)", ""),
         "more values than there can be"},
        {npy_of("<f4", "(1000000000000,)", ""), "is truncated: it holds"},
        {npy_of("<f4", "(-1,)", ""), "which numpy does not write"},
        {npy_of("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "1234"), "9 dimensions"},
        {npy_of("<f4", "(2", "12345678"), "which numpy does not write"},
        {npy_of("<f4", "2", "12345678"), "which numpy does not write"},
        {npy("{'descr': '<f4', 'shape': (2,), }", "12345678"), "which numpy does not write"},
        {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
             "12345678"),
         "which numpy does not write"},
        {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "12345678"),
         "which numpy does not write"},
        {npy("__import__('os')", "12345678"), "which numpy does not write"},
        {npy("{'descr': '<f4", ""), "which numpy does not write"},
        {npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", "1234"),
         "values of type \"records\""},
        {npy("{'descr': [('a', '<i4'), 'fortran_order': False, 'shape': (1,), }", "1234"),
         "which numpy does not write"},
        {npy_of("|O", "(1,)", "12345678"), "values of type \"|O\""},
        {npy_of("<U3", "(1,)", "123456789012"), "values of type \"<U3\""},
        {npy_of("<u4", "(1,)", "1234"), "values of type \"<u4\""},
        {npy_of("<f\n", "(1,)", "1234"), "has the header \"{'descr': '<f?'"},
        {npy_of("|b1", "(2,)", std::string("\1\2", 2)), "truth value above 1"},
        {gzip(npy_of("<f4", "(20000000,)", "1234")), "more than the 67108864 that are credible"},
        {gzip(good).substr(0, 60), "ends early"},
        {gzip(npy_of("<f4", "(16000000,)", "1234")), "is truncated: it holds"}};
    for (const Wrong& wrong : all) {
      CAPTURE(wrong.complaint);
      CHECK_THROWS_WITH_AS((void)read(wrong.content), doctest::Contains(wrong.complaint),
                           troupe::DataError);
    }
  }

  TEST_CASE("npz: numpy's own file, and archives stored and deflated") {
    const auto arrays = read_archive(by_numpy());
    REQUIRE(arrays.size() == 2);
    CHECK(values_of<float>(arrays.at("x")) == std::vector<float>{1.5, -2});
    CHECK(values_of<std::int64_t>(arrays.at("label")) == std::vector<std::int64_t>{7});
    CHECK(arrays.at("label").dims.empty());

    const std::string large = npy_of("|u1", "(300000,)", std::string(300000, '\7'));
    const auto more = read_archive(zip({{"a.npy", npy_of("|i1", "(1,)", "x")},
                                        {"b/c.npy", large, true},
                                        {"none.npy", npy_of("<f4", "(0,)", ""), true}}));
    REQUIRE(more.size() == 3);
    CHECK(more.at("b/c").bytes == std::vector<std::byte>(300000, std::byte{7}));
    CHECK(read_archive(zip({})).empty());
  }

  TEST_CASE("npz: what is no archive of arrays, or a hostile one, is refused") {
    const std::string array = npy_of("|i1", "(3,)", "xyz");
    const std::string good = zip({{"a.npy", array}});
    const auto with = [](std::string bytes, std::size_t at, const std::string& other) {
      return bytes.replace(at, other.size(), other);
    };
    const std::size_t end = good.size() - 22;
    const std::size_t entry = end - 46 - 5;
    const std::string packed = zip({{"a.npy", array, true}});
    const std::vector<Wrong> all = {
        {"", "is too short"},
        {std::string(100, 'P'), "its end is missing"},
        {good.substr(0, good.size() - 1), "its end is missing"},
        {good + "x", "its end is missing"},
        {with(good, end + 16, little(0xFFFFFFFF, 4)), "zip64"},
        {with(good, entry + 24, little(0xFFFFFFFF, 4)), "zip64"},
        {with(good, end + 16, little(good.size(), 4)), "which is not in it"},
        {with(good, end + 12, little(good.size(), 4)), "which is not in it"},
        {with(good, end + 8, little(2, 2) + little(2, 2)), "no entry 2 of 2"},
        {with(good, end + 4, little(1, 2)), "one part of a zip archive"},
        {with(good, entry, "PKxx"), "no entry 1 of 1"},
        {with(good, entry + 28, little(6, 2)), "no entry 1 of 1"},
        {with(good, entry + 8, little(1, 2)), "encrypted"},
        {with(good, entry + 10, little(12, 2)), "method 12"},
        {with(good, entry + 42, little(good.size(), 4)), "begins behind"},
        {with(good, entry + 42, little(1, 4)), "is not where the archive's directory says"},
        {with(good, entry + 20, little(good.size(), 4) + little(good.size(), 4)),
         "does not end within the archive"},
        {with(good, entry + 24, little(1, 4)), "another number of bytes"},
        {with(good, entry + 16, little(1, 4)), "is corrupt: its length or CRC"},
        {with(packed, packed.size() - 22 - 5 - 46 + 24, little(200, 4)), "is corrupt: its length"},
        {with(packed, 39, "\xff\xff\xff"), "is corrupt: zlib says"},
        {with(packed, packed.size() - 22 - 5 - 46 + 24, little(0x7FFFFFFF, 4)),
         "announces 2147483647 bytes, too much"},
        {zip({{"a.txt", "hello"}}), "has a member \"a.txt\""},
        {zip({{".npy", array}}), "has a member \".npy\""},
        {zip({{"a.npy", array}, {"a.npy", array}}), "names of their own"},
        {zip({{"a\n.npy", "junk", true}}), "member \"a?.npy\" is truncated"},
        {zip({{"a.npy", array + "w", true}}), "member \"a.npy\" continues after"}};
    for (const Wrong& wrong : all) {
      CAPTURE(wrong.complaint);
      CHECK_THROWS_WITH_AS((void)read_archive(wrong.content), doctest::Contains(wrong.complaint),
                           troupe::DataError);
    }
    const TempDir dir;
    CHECK_THROWS_WITH_AS((void)troupe::read_npz(dir.path()), doctest::Contains("is a directory"),
                         troupe::DataError);
  }

  TEST_CASE("npz: members that share their bytes come to no more than is credible") {
    // One member of 40 MiB, deflated to 40 KiB, and a directory that names it twice.
    const std::string array = npy_of("|u1", "(41943040,)", std::string(41943040, '\0'));
    const std::string one = zip({{"a.npy", array, true}});
    const std::size_t entry = one.size() - 22 - 46 - 5;
    std::string second = one.substr(entry, 46 + 5);
    second[46] = 'b';
    const std::string both = one.substr(0, entry) + one.substr(entry, 46 + 5) + second +
                             "PK\x05\x06" + little(0, 4) + little(2, 2) + little(2, 2) +
                             little(102, 4) + little(entry, 4) + little(0, 2);
    CHECK(read_archive(one).size() == 1);
    CHECK_THROWS_WITH_AS((void)read_archive(both), doctest::Contains("too much for a file of"),
                         troupe::DataError);
  }
}

}  // namespace npy_test
