#include "troupe/distributed/net/link.h"

#include <fcntl.h>

#include "tests/support/test_prelude.h"

namespace link_test {

using namespace troupe;  // NOLINT: a test

TEST_SUITE("net") {
  TEST_CASE("unique_fd: one owner, who closes it") {
    UniqueFd first(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const int fd = first.get();
    REQUIRE(fd >= 0);
    UniqueFd second(std::move(first));
    CHECK(second.get() == fd);
    first = std::move(second);
    CHECK(::fcntl(fd, F_GETFD) >= 0);
    first.reset();
    CHECK(::fcntl(fd, F_GETFD) == -1);
  }
}

}  // namespace link_test
