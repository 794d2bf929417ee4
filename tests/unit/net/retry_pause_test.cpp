#include "net/connector.h"

#include <vector>

#include "tests/support/test_prelude.h"

TEST_SUITE("net") {
  TEST_CASE("retry_pause: short at first, then longer, never above its most") {
    troupe::RetryPause pauses;
    std::vector<long> milliseconds;
    for (int i = 0; i < 8; ++i) milliseconds.push_back(pauses.next().count());
    CHECK(milliseconds == std::vector<long>{5, 10, 20, 40, 80, 100, 100, 100});
  }
}
