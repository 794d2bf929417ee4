#include "tests/support/test_prelude.h"
#include "troupe/core/clock.h"

namespace deadline_test {

using namespace std::chrono_literals;

TEST_SUITE("core") {
  TEST_CASE("deadline: a limit of nothing has expired and leaves nothing") {
    const auto deadline = troupe::Deadline::in(0ms);
    CHECK(deadline.expired());
    CHECK(deadline.remaining() == 0ms);
  }

  TEST_CASE("deadline: an hour has not expired, and the limit is kept for messages") {
    const auto deadline = troupe::Deadline::in(3'600'000ms);
    CHECK_FALSE(deadline.expired());
    CHECK(deadline.remaining() > 3'500'000ms);
    CHECK(deadline.limit_seconds() == doctest::Approx(3600));
  }
}

}  // namespace deadline_test
