#include "net/link.h"

#include <fcntl.h>

#include "tests/support/test_prelude.h"

using namespace troupe;  // NOLINT: a test

TEST_SUITE("net") {
  TEST_CASE("link: a descriptor that cannot be a link's is closed") {
    LinkContext context;
    const int fd = ::open("/dev/null", O_PATH | O_CLOEXEC);  // epoll refuses it
    REQUIRE(fd >= 0);
    CHECK_THROWS(Link(context, UniqueFd(fd), 1));
    CHECK(::fcntl(fd, F_GETFD) == -1);
  }

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
