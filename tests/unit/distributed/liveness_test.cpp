#include "troupe/distributed/membership/liveness.h"

#include "tests/support/test_prelude.h"

namespace {
using std::chrono::milliseconds;
using troupe::Liveness;
const Liveness::TimePoint kStart{};
Liveness::TimePoint at(int ms) { return kStart + milliseconds(ms); }
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("liveness: silence longer than the timeout is a loss, a word resets it") {
    Liveness liveness(3, milliseconds(1000), kStart);
    for (int ms = 250; ms <= 1000; ms += 250) {
      liveness.tick(at(ms));
      liveness.heard(1, at(ms));
      CHECK_FALSE(liveness.lost(2, at(ms)));
    }
    liveness.tick(at(1250));
    CHECK_FALSE(liveness.lost(1, at(1250)));
    CHECK(liveness.lost(2, at(1250)));
    liveness.heard(2, at(1260));
    CHECK_FALSE(liveness.lost(2, at(1260)));
  }

  TEST_CASE("liveness: a process that did not run blames nobody for the time it missed") {
    Liveness liveness(2, milliseconds(1000), kStart);
    liveness.tick(at(250));
    liveness.tick(at(9000));  // stopped in between
    CHECK_FALSE(liveness.lost(1, at(9000)));
    int ms = 9250;
    for (; ms <= 10000; ms += 250) {
      liveness.tick(at(ms));
      CHECK_FALSE(liveness.lost(1, at(ms)));
    }
    liveness.tick(at(ms));
    CHECK(liveness.lost(1, at(ms)));
  }

  TEST_CASE("liveness: the next look comes when a loss could be seen, not a tick later") {
    const Liveness liveness(2, milliseconds(1000), kStart);
    CHECK(liveness.next_look(1, at(100), milliseconds(250)) == milliseconds(250));
    CHECK(liveness.next_look(1, at(900), milliseconds(250)) == milliseconds(101));
    CHECK(liveness.next_look(1, at(1500), milliseconds(250)) == milliseconds(250));  // known lost
  }
}
