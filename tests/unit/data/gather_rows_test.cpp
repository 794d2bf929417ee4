#include "troupe/data/gather_rows.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/span.h"

namespace gather_rows_test {

namespace {

using Rows = std::vector<std::int64_t>;

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("gather_rows: copies the rows that were asked for, in that order") {
    // Row lengths around a cache line, around what is asked for ahead, and nothing.
    for (const std::size_t row_bytes : {0, 1, 63, 64, 784, 4096, 5000}) {
      CAPTURE(row_bytes);
      std::vector<std::uint8_t> from(5 * row_bytes);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 + 1);
      const Rows rows = {3, 0, 3, 4, 1, 2};
      std::vector<std::uint8_t> to(rows.size() * row_bytes + 1, 0xAA);
      troupe::detail::copy_rows(reinterpret_cast<const std::byte*>(from.data()), row_bytes, rows,
                                reinterpret_cast<std::byte*>(to.data()));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(std::memcmp(to.data() + i * row_bytes,
                          from.data() + static_cast<std::size_t>(rows[i]) * row_bytes,
                          row_bytes) == 0);
      }
      CHECK(to.back() == 0xAA);
    }
  }

  TEST_CASE("gather_rows: bytes become scaled numbers, rounded after each operation") {
    std::vector<std::uint8_t> from(2 * 256);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i);
    const troupe::ByteScale scale{1 / (255 * 0.3081), 0.1307 / 0.3081};
    std::vector<float> to(2 * 256 + 1, -7.0F);
    troupe::detail::scale_rows(from.data(), 256, Rows{1, 0}, scale, to.data());
    for (int byte = 0; byte < 256; ++byte) {
      // volatile: the compiler may not make one operation of the two
      const volatile float product = static_cast<float>(byte) * static_cast<float>(scale.factor);
      const volatile float expected = product - static_cast<float>(scale.shift);
      CHECK(to[static_cast<std::size_t>(byte)] == expected);
      CHECK(to[static_cast<std::size_t>(256 + byte)] == expected);
    }
    CHECK(to.back() == -7.0F);
  }
}

}  // namespace gather_rows_test
