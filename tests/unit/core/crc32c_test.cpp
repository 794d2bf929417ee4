#include "core/crc32c.h"

#include <string>
#include <vector>

#include "tests/support/test_prelude.h"

namespace crc32c_test {

namespace {

using namespace troupe;  // NOLINT: a test
using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& text) {
  Bytes bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

// Bytes without a pattern.
Bytes noise(std::size_t count) {
  Bytes bytes(count);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// Bit by bit, as the definition has it.
std::uint32_t by_definition(Span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78U : crc >> 1;
  }
  return ~crc;
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("crc32c: every version has the values of RFC 3720") {
    Bytes rising(32);
    Bytes falling(32);
    for (std::size_t i = 0; i < 32; ++i) {
      rising[i] = static_cast<std::byte>(i);
      falling[i] = static_cast<std::byte>(31 - i);
    }
    Bytes command(48, std::byte{0});  // B.4's iSCSI read command
    for (const auto& [at, value] : std::vector<std::pair<std::size_t, int>>{{0, 0x01},
                                                                            {1, 0xc0},
                                                                            {16, 0x14},
                                                                            {22, 0x04},
                                                                            {27, 0x14},
                                                                            {31, 0x18},
                                                                            {32, 0x28},
                                                                            {40, 0x02}}) {
      command[at] = static_cast<std::byte>(value);
    }
    for (const Crc32cVersion& version : crc32c_versions()) {
      CAPTURE(version.name);
      CHECK(version.compute(Bytes(32, std::byte{0}), 0) == 0x8A9136AA);
      CHECK(version.compute(Bytes(32, std::byte{0xff}), 0) == 0x62A8AB43);
      CHECK(version.compute(rising, 0) == 0x46DD794E);
      CHECK(version.compute(falling, 0) == 0x113FDB5C);
      CHECK(version.compute(command, 0) == 0xD9963A56);
      CHECK(version.compute(bytes_of("123456789"), 0) == 0xE3069283);
      CHECK(version.compute(Bytes(), 0) == 0);
    }
  }

  TEST_CASE("crc32c: every version, at every alignment and length, alone and after other bytes") {
    const Bytes bytes = noise(64 + 300);
    for (const Crc32cVersion& version : crc32c_versions()) {
      CAPTURE(version.name);
      std::size_t wrong = 0;
      for (std::size_t from = 0; from < 64; ++from) {
        for (std::size_t count = 0; count <= 300; ++count) {
          const Span<const std::byte> part(bytes.data() + from, count);
          const std::uint32_t whole = by_definition(part);
          const std::size_t cut = count * from / 64;
          const std::uint32_t before = version.compute(part.subspan(0, cut), 0);
          wrong += version.compute(part, 0) == whole ? 0 : 1;
          wrong += version.compute(part.subspan(cut, count - cut), before) == whole ? 0 : 1;
        }
      }
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("crc32c: every version takes long bytes, in any two parts") {
    const Bytes bytes = noise(8000);  // several of the longest blocks that a version has
    const std::uint32_t whole = by_definition(Span<const std::byte>(bytes));
    for (const Crc32cVersion& version : crc32c_versions()) {
      CAPTURE(version.name);
      std::size_t wrong = 0;
      for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        const Span<const std::byte> all(bytes);
        const std::uint32_t before = version.compute(all.subspan(0, cut), 0);
        wrong += version.compute(all.subspan(cut, bytes.size() - cut), before) == whole ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
    CHECK(crc32c(Span<const std::byte>(bytes)) == whole);
  }
}

}  // namespace crc32c_test
