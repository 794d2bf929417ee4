#include "core/quick_digest.h"

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "tests/support/test_prelude.h"

namespace quick_digest_test {

using troupe::quick_digest;
using troupe::QuickDigest;

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 draw(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw());
  return bytes;
}

QuickDigest of(const Bytes& bytes) { return quick_digest(troupe::Span<const std::byte>(bytes)); }

void flip(Bytes& bytes, std::size_t bit) { bytes[bit / 8] ^= std::byte(1U << bit % 8); }

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("quick digest: every flipped bit changes both halves, at every length") {
    for (std::size_t size = 0; size <= 200; ++size) {
      CAPTURE(size);
      Bytes bytes = random_bytes(size, static_cast<unsigned>(size));
      const QuickDigest before = of(bytes);
      int missed = 0;
      for (std::size_t bit = 0; bit < size * 8; ++bit) {
        flip(bytes, bit);
        const QuickDigest now = of(bytes);
        if (now.first == before.first || now.second == before.second) ++missed;
        flip(bytes, bit);
      }
      CHECK(missed == 0);
      CHECK(of(bytes) == before);
    }
  }

  // A product passes the highest bit of a word on to no other.
  TEST_CASE("quick digest: sign bits that flip in pairs do not cancel") {
    Bytes bytes = random_bytes(512, 1);
    const QuickDigest before = of(bytes);
    for (std::size_t one = 31; one < bytes.size() * 8; one += 32) {
      for (std::size_t other = one + 32; other < bytes.size() * 8; other += 32) {
        flip(bytes, one);
        flip(bytes, other);
        REQUIRE(of(bytes) != before);
        flip(bytes, one);
        flip(bytes, other);
      }
    }
  }

  TEST_CASE("quick digest: zeros are told apart by their number, and words by their places") {
    std::set<std::uint64_t> seen;
    for (std::size_t size = 0; size <= 300; ++size) seen.insert(of(Bytes(size)).first);
    CHECK(seen.size() == 301);
    for (std::size_t distance = 8; distance <= 256; distance += 8) {
      Bytes bytes = random_bytes(512, 2);
      const QuickDigest before = of(bytes);
      for (std::size_t i = 0; i < 8; ++i) std::swap(bytes[16 + i], bytes[16 + i + distance]);
      CHECK(of(bytes) != before);
    }
  }

  TEST_CASE("quick digest: it does not depend on where the bytes lie") {
    const Bytes bytes = random_bytes(333, 3);
    const QuickDigest expected = of(bytes);
    for (std::size_t offset = 0; offset < 16; ++offset) {
      Bytes moved(offset + bytes.size());
      std::memcpy(moved.data() + offset, bytes.data(), bytes.size());
      CHECK(quick_digest({moved.data() + offset, bytes.size()}) == expected);
    }
  }
}

}  // namespace quick_digest_test
