#include "troupe/train/callbacks/step_timer.h"

#include <cmath>
#include <string>

#include "tests/support/caught.h"
#include "tests/support/fake_clock.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using troupe::ConfigError;
using troupe::Every;
using troupe::Seconds;
using troupe::StepTimer;

std::string refusal(const Every& every) {
  try {
    every.validate("StepCounter");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("step_timer: every 3 steps") {
    const FakeClock clock;
    StepTimer timer(Every::n_steps(3), clock);
    CHECK(timer.due(1));
    timer.mark(1);
    CHECK_FALSE(timer.due(1));
    CHECK_FALSE(timer.due(2));
    CHECK_FALSE(timer.due(3));
    CHECK(timer.due(4));
    CHECK(timer.last_step() == 1);
  }

  TEST_CASE("step_timer: every second, but never twice for one step") {
    FakeClock clock;
    StepTimer timer(Every::n_seconds(1), clock);
    CHECK(timer.due(1));
    timer.mark(1);
    CHECK_FALSE(timer.due(1));
    CHECK_FALSE(timer.due(2));
    clock.advance(Seconds(1));
    CHECK_FALSE(timer.due(1));
    CHECK(timer.due(2));
  }

  TEST_CASE("step_timer: both periods, neither, or one that is not above 0 is refused") {
    const FakeClock clock;
    CHECK(has(refusal({}), "StepCounter was given neither"));
    CHECK(has(refusal({3, Seconds(1)}), "StepCounter was given both"));
    CHECK(has(refusal(Every::n_steps(0)), "a period of 0 steps"));
    CHECK(has(refusal(Every::n_steps(-3)), "a period of -3 steps"));
    CHECK(has(refusal(Every::n_seconds(0)), "a period of 0 seconds"));
    CHECK(has(refusal(Every::n_seconds(std::nan(""))), "a period of nan seconds"));
    CHECK(refusal(Every::n_steps(1)).empty());
    CHECK(refusal(Every::n_seconds(0.001)).empty());
    CHECK_THROWS_AS(StepTimer({}, clock), ConfigError);
    CHECK_THROWS_AS(StepTimer({3, Seconds(1)}, clock), ConfigError);
  }

  TEST_CASE("step_timer: a mark says what has passed since the mark before") {
    FakeClock clock;
    StepTimer timer(Every::n_steps(1), clock);
    const auto first = timer.mark(1);
    CHECK_FALSE(first.seconds.has_value());
    CHECK_FALSE(first.steps.has_value());
    clock.advance(Seconds(0.5));
    const auto second = timer.mark(5);
    CHECK(second.seconds == Seconds(0.5));
    CHECK(second.steps == 4);
    clock.advance(Seconds(2));
    const auto third = timer.mark(7);
    CHECK(third.seconds == Seconds(2));
    CHECK(third.steps == 2);
  }

  TEST_CASE("step_timer: after a reset it is as if it was never marked") {
    const FakeClock clock;
    StepTimer timer(Every::n_seconds(600), clock);
    timer.mark(4);
    CHECK_FALSE(timer.due(5));
    timer.reset();
    CHECK(timer.due(4));
    CHECK_FALSE(timer.last_step().has_value());
    CHECK_FALSE(timer.mark(4).seconds.has_value());
  }

  TEST_CASE("step_timer: the largest periods are never due and do not overflow") {
    FakeClock clock;
    StepTimer by_steps(Every::n_steps(INT64_MAX), clock);
    StepTimer by_seconds(Every::n_seconds(HUGE_VAL), clock);
    by_steps.mark(10);
    by_seconds.mark(10);
    clock.advance(Seconds(1e6));
    CHECK_FALSE(by_steps.due(1000));
    CHECK_FALSE(by_seconds.due(1000));
  }
}
