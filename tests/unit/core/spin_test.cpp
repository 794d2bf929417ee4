#include "troupe/core/spin.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/test_prelude.h"

namespace spin_test {

using std::chrono::steady_clock;
using troupe::spin_until;

TEST_SUITE("core") {
  TEST_CASE("spin: what holds already is seen at once, whatever the limit") {
    CHECK(spin_until([] { return true; }, std::chrono::microseconds(0)));
  }

  TEST_CASE("spin: what never holds is given up, and not before the limit") {
    const std::chrono::microseconds limit(200);
    const auto begin = steady_clock::now();
    CHECK_FALSE(spin_until([] { return false; }, limit));
    CHECK(steady_clock::now() - begin >= limit);
  }

  TEST_CASE("spin: what another thread does is seen") {
    std::atomic<bool> ready{false};
    std::thread other([&] { ready = true; });
    CHECK(spin_until([&] { return ready.load(); }, std::chrono::seconds(20)));
    other.join();
  }
}

}  // namespace spin_test
