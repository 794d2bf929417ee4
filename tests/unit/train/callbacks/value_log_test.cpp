#include "train/callbacks/value_log.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/captured_log.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"

using troupe::ConfigError;
using troupe::Every;
using troupe::NamedValues;
using troupe::Seconds;
using troupe::ValueLog;
using troupe::testing::CapturedLog;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;

namespace {

// The source writes down at which step it was asked: where the log has a line.
struct Asked {
  FakeRun run{40};  // steps of the run count, whatever it starts at
  std::vector<std::int64_t> at;

  ValueLog::Source source() {
    return [this] {
      at.push_back(run.step() - 40);
      return NamedValues{{"a", 0.5}, {"b", 2}};
    };
  }
  void take(ValueLog& log, int steps) {
    for (int i = 0; i < steps; ++i) run.take_step(log);
  }
};

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("value_log: T127 every 10 of 32 steps logs the 1st, 11th, 21st and 31st") {
    const FakeClock clock;
    Asked asked;
    ValueLog log(asked.source(), {Every::n_steps(10), false, nullptr}, clock);
    log.begin();
    log.ready(asked.run);
    asked.take(log, 32);
    log.end(asked.run);
    CHECK(asked.at == std::vector<std::int64_t>{1, 11, 21, 31});
  }

  TEST_CASE("value_log: T127 at_end logs once more, alone only there") {
    const FakeClock clock;
    Asked asked;
    SUBCASE("with a period") {
      ValueLog log(asked.source(), {Every::n_steps(10), true, nullptr}, clock);
      log.begin();
      asked.take(log, 12);
      log.end(asked.run);
      CHECK(asked.at == std::vector<std::int64_t>{1, 11, 12});
    }
    SUBCASE("alone") {
      ValueLog log(asked.source(), {Every{}, true, nullptr}, clock);
      log.begin();
      asked.take(log, 12);
      log.end(asked.run);
      CHECK(asked.at == std::vector<std::int64_t>{12});
    }
  }

  TEST_CASE("value_log: by seconds, the first step and then by the clock") {
    FakeClock clock;
    Asked asked;
    ValueLog log(asked.source(), {Every::n_seconds(1), false, nullptr}, clock);
    for (int i = 0; i < 5; ++i) {
      asked.take(log, 1);
      clock.advance(Seconds(0.5));
    }
    CHECK(asked.at == std::vector<std::int64_t>{1, 3, 5});
  }

  TEST_CASE("value_log: the first line of a run has no duration, later ones have") {
    FakeClock clock;
    Asked asked;
    ValueLog log(asked.source(), {Every::n_steps(1), false, nullptr}, clock);
    for (int i = 0; i < 2; ++i) {
      const CapturedLog captured;
      log.begin();
      asked.take(log, 1);
      CHECK(captured.has(" I a = 0.5, b = 2\n"));
      clock.advance(Seconds(0.5));
      asked.take(log, 1);
      CHECK(captured.has(" I a = 0.5, b = 2 (0.500 sec)\n"));
    }
  }

  TEST_CASE("value_log: a format makes the whole line") {
    const FakeClock clock;
    Asked asked;
    ValueLog log(asked.source(),
                 {Every::n_steps(1), false,
                  [](const NamedValues& values) { return "only " + values.at(1).first; }},
                 clock);
    const CapturedLog captured;
    asked.take(log, 1);
    CHECK(captured.has(" I only b\n"));
  }

  TEST_CASE("value_log: T128 a period of 0, both, or neither is refused") {
    const FakeClock clock;
    Asked asked;
    const auto make = [&](const Every& every, bool at_end) {
      return ValueLog(asked.source(), {every, at_end, nullptr}, clock);
    };
    const Every both{10, Seconds(5)};
    CHECK_THROWS_WITH_AS(make(Every::n_steps(0), false), doctest::Contains("ValueLog"),
                         ConfigError);
    CHECK_THROWS_AS(make(Every::n_steps(0), true), ConfigError);
    CHECK_THROWS_AS(make(both, false), ConfigError);
    CHECK_THROWS_AS(make(both, true), ConfigError);
    CHECK_THROWS_AS(make(Every{}, false), ConfigError);
    CHECK_NOTHROW(make(Every{}, true));
  }
}
