#include "troupe/distributed/collectives/reduction.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/span.h"

namespace {

/// into[i] += from[i] for `count` elements.
void add_to(std::byte* into, const std::byte* from, std::size_t count,
            const troupe::Reduction& sum) {
  const std::byte* const both[] = {into, from};
  sum.add(into, both, 2, count);
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("reduction: sums every element, vector tails included") {
    const troupe::Reduction sum = troupe::sum_of<float>();
    for (std::size_t n = 0; n < 70; ++n) {
      std::vector<float> into(n);
      std::vector<float> from(n);
      for (std::size_t i = 0; i < n; ++i) {
        into[i] = static_cast<float>(i) / 3;
        from[i] = 1000.1F;
      }
      add_to(troupe::as_writable_bytes(troupe::Span<float>(into)).data(),
             troupe::as_bytes(troupe::Span<float>(from)).data(), n, sum);
      for (std::size_t i = 0; i < n; ++i) CHECK(into[i] == static_cast<float>(i) / 3 + 1000.1F);
    }
  }

  TEST_CASE("reduction: an integer sum wraps around") {
    std::vector<std::int64_t> into = {std::numeric_limits<std::int64_t>::max()};
    std::vector<std::int64_t> from = {1};
    add_to(troupe::as_writable_bytes(troupe::Span<std::int64_t>(into)).data(),
           troupe::as_bytes(troupe::Span<std::int64_t>(from)).data(), 1,
           troupe::sum_of<std::int64_t>());
    CHECK(into[0] == std::numeric_limits<std::int64_t>::min());
  }
}
