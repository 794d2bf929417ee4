#include "bench/scale/network_model.h"

#include <map>

#include "tests/support/test_prelude.h"

namespace network_model_test {

namespace {

using namespace troupe::bench;         // NOLINT: a test
using namespace std::chrono_literals;  // NOLINT: a test

/// When each packet arrives, in milliseconds by id.
std::map<std::uint64_t, double> arrivals(NetworkModel& model) {
  std::map<std::uint64_t, double> at;
  while (const auto next = model.next()) {
    model.advance(*next, [&](const Packet& packet, NetworkModel::Time time) {
      at[packet.id] = std::chrono::duration<double, std::milli>(time).count();
    });
  }
  return at;
}

NetworkShape shape() {
  NetworkShape shape;
  shape.delay = 10ms;
  shape.port_rate = 1e6;  // 1000 bytes in a millisecond
  return shape;
}

}  // namespace

TEST_SUITE("bench") {
  TEST_CASE("network model: a packet takes the delay and its own time, once") {
    NetworkModel model(2, shape());
    model.send(0ms, {0, 1, 5000, false, 1});
    CHECK(arrivals(model)[1] == doctest::Approx(15));
  }
  TEST_CASE("network model: packets of one port wait for each other, both directions do not") {
    NetworkModel model(3, shape());
    model.send(0ms, {0, 1, 5000, false, 1});
    model.send(0ms, {0, 2, 5000, false, 2});
    model.send(0ms, {1, 0, 5000, false, 3});
    auto at = arrivals(model);
    CHECK(at[1] == doctest::Approx(15));
    CHECK(at[2] == doctest::Approx(20));
    CHECK(at[3] == doctest::Approx(15));
  }
  TEST_CASE("network model: packets for one port wait for each other") {
    NetworkModel model(3, shape());
    model.send(0ms, {0, 2, 5000, false, 1});
    model.send(1ms, {1, 2, 5000, false, 2});
    auto at = arrivals(model);
    CHECK(at[1] == doctest::Approx(15));
    CHECK(at[2] == doctest::Approx(20));
  }
  TEST_CASE("network model: an urgent packet passes those that wait") {
    NetworkModel model(2, shape());
    model.send(0ms, {0, 1, 50'000, false, 1});
    model.send(0ms, {0, 1, 40, true, 2});
    auto at = arrivals(model);
    CHECK(at[1] == doctest::Approx(60));
    CHECK(at[2] == doctest::Approx(10));
  }
  TEST_CASE("network model: only what leaves a group passes its uplink") {
    NetworkShape groups = shape();
    groups.group_size = 2;
    groups.uplink_delay = 5ms;
    groups.uplink_rate = 0.5e6;
    NetworkModel model(4, groups);
    model.send(0ms, {0, 2, 1000, false, 1});
    model.send(0ms, {1, 3, 1000, false, 2});  // the same uplink
    model.send(0ms, {3, 2, 1000, false, 3});  // within
    auto at = arrivals(model);
    CHECK(at[1] == doctest::Approx(17));
    CHECK(at[2] == doctest::Approx(19));
    CHECK(at[3] == doctest::Approx(11));
  }
  TEST_CASE("network model: what comes from afar does not hold a line that is free") {
    NetworkShape groups = shape();
    groups.group_size = 2;
    groups.uplink_delay = 100ms;
    NetworkModel model(4, groups);
    model.send(0ms, {2, 1, 1000, false, 1});
    model.send(1ms, {0, 1, 1000, false, 2});
    auto at = arrivals(model);
    CHECK(at[1] == doctest::Approx(111));
    CHECK(at[2] == doctest::Approx(12));
  }
}

}  // namespace network_model_test
