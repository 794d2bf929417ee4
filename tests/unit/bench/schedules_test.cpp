#include "bench/scale/schedules.h"

#include <map>
#include <utility>

#include "bench/scale/cost_model.h"
#include "tests/support/test_prelude.h"

namespace schedules_test {

namespace {

using namespace troupe::bench;         // NOLINT: a test
using namespace std::chrono_literals;  // NOLINT: a test

/// Bytes sent minus bytes received by (from, to), over the whole schedule.
std::map<std::pair<int, int>, long> unmatched(const Schedule& schedule) {
  std::map<std::pair<int, int>, long> balance;
  for (int rank = 0; rank < static_cast<int>(schedule.size()); ++rank) {
    for (const Step& step : schedule[static_cast<std::size_t>(rank)]) {
      for (const Message& m : step.sends) balance[{rank, m.peer}] += static_cast<long>(m.bytes);
      for (const Message& m : step.receives) balance[{m.peer, rank}] -= static_cast<long>(m.bytes);
    }
  }
  return balance;
}

NetworkShape shape() {
  NetworkShape shape;
  shape.delay = 10ms;
  shape.port_rate = 1e6;
  return shape;
}

}  // namespace

TEST_SUITE("bench") {
  TEST_CASE("schedules: what one rank sends another expects") {
    for (const Schedule& schedule : {ring_schedule(6, 6000), doubling_schedule(8, 100),
                                     direct_schedule(5, 1000), two_level_schedule(12, 4, 4800)}) {
      for (const auto& [pair, bytes] : unmatched(schedule)) {
        CAPTURE(pair.first);
        CAPTURE(pair.second);
        CHECK(bytes == 0);
      }
    }
  }
  TEST_CASE("schedules: simulated on one switch, the times are the cost models'") {
    const Parameters link{10e-3, 1e6, 0};
    constexpr std::size_t kBytes = 1'600'000;
    CHECK(simulate(ring_schedule(8, kBytes), shape(), 0ns) ==
          doctest::Approx(seconds_of(ring_cost(8, kBytes), link)).epsilon(0.01));
    CHECK(simulate(direct_schedule(8, kBytes), shape(), 0ns) ==
          doctest::Approx(seconds_of(direct_cost(8, kBytes), link)).epsilon(0.01));
    CHECK(simulate(doubling_schedule(8, kBytes), shape(), 0ns) ==
          doctest::Approx(seconds_of(doubling_cost(8, kBytes), link)).epsilon(0.01));
  }
  TEST_CASE("schedules: two levels send over an uplink a group's share, direct G times as much") {
    NetworkShape network = shape();
    network.port_rate = 0;  // only uplinks cost time
    network.delay = 0ns;
    network.group_size = 4;
    network.uplink_rate = 1e6;
    constexpr std::size_t kBytes = 1'600'000;
    const double flat = simulate(direct_schedule(16, kBytes), network, 0ns);
    const double both = simulate(two_level_schedule(16, 4, kBytes), network, 0ns);
    CHECK(both == doctest::Approx(2 * 0.75 * 1.6).epsilon(0.02));
    CHECK(flat / both == doctest::Approx(4).epsilon(0.02));
  }
  TEST_CASE("schedules: every message costs its sender") {
    CHECK(simulate(direct_schedule(5, 0), NetworkShape{}, 1ms) == doctest::Approx(8e-3));
  }
}

}  // namespace schedules_test
