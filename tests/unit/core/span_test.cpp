#include "troupe/core/span.h"

#include <cstdint>
#include <vector>

#include "tests/support/test_prelude.h"

namespace span_test {

TEST_SUITE("core") {
  TEST_CASE("span: a view of a vector, writable where the vector is") {
    std::vector<float> values = {1, 2, 3};
    troupe::Span<float> view(values);
    view[1] = 5;
    CHECK(values[1] == 5);
    const troupe::Span<const float> fixed = view;
    CHECK(fixed.size() == 3);
    CHECK(fixed.subspan(1, 2)[0] == 5);
    CHECK(troupe::as_bytes(fixed).size() == 12);
  }
}

}  // namespace span_test
