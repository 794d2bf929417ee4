#include "troupe/core/checksum.h"

#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/xxh3/xxh3.h"

namespace checksum_test {

using troupe::as_bytes;
using troupe::Checksum;
using troupe::checksum_of;
using troupe::Span;

TEST_SUITE("core") {
  // Values of the reference implementation, xxHash 0.8.
  TEST_CASE("checksum: the values are XXH3's") {
    const std::string digits = "123456789";
    const auto bytes = as_bytes(Span<const char>(digits.data(), digits.size()));
    CHECK(troupe::hash_of({}) == 0x2d06800538d394c2);
    CHECK(troupe::hash_of(bytes) == 0x72dcb18b67a17dff);
    CHECK(troupe::hash_of(bytes, 1) != troupe::hash_of(bytes));
    CHECK(checksum_of(bytes) == 0x67a17dff);
    CHECK(checksum_of({}) == 0);
    const auto print = troupe::fingerprint_of(bytes);
    CHECK(print.high == 0x33119477ede5dcd5);
    CHECK(print.low == 0xe9716427681d5860);
  }

  TEST_CASE("checksum: both kinds of processors have the same, at every length and alignment") {
    std::vector<std::byte> bytes(2100);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 89 % 241);
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2")) return;
#endif
    for (std::size_t begin = 0; begin < 9; ++begin) {
      for (std::size_t size = 0; size < 2080; size += 13) {
        const void* const at = bytes.data() + begin;
        REQUIRE(troupe::detail::kXxh3.hash(at, size, 7) ==
                troupe::detail::kXxh3Avx2.hash(at, size, 7));
      }
    }
  }

  TEST_CASE(
      "checksum: bytes in any two parts have the checksum of the whole, and the next starts anew") {
    std::vector<std::byte> bytes(3000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
    const Span<const std::byte> all(bytes);
    Checksum sum;
    CHECK(sum.take() == 0);
    for (std::size_t cut = 0; cut <= bytes.size(); cut += 7) {
      sum.add(all.subspan(0, cut));
      sum.add(all.subspan(cut, bytes.size() - cut));
      REQUIRE(sum.take() == checksum_of(all));
    }
    CHECK(sum.take() == 0);
  }
}

}  // namespace checksum_test
