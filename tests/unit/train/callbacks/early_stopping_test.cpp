#include "train/callbacks/early_stopping.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"

using troupe::ConfigError;
using troupe::Every;
using troupe::make_early_stopping;
using troupe::ScalarHistory;
using troupe::Seconds;
using troupe::stop_if_higher;
using troupe::stop_if_lower;
using troupe::stop_if_no_decrease;
using troupe::stop_if_no_increase;
using troupe::StopReason;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ScalarHistory evaluations() {
  return {{1000, {{"loss", .8}, {"accuracy", .5}}},
          {2000, {{"loss", .7}, {"accuracy", .6}}},
          {3000, {{"loss", .4}, {"accuracy", .7}}},
          {3500, {{"loss", .41}, {"accuracy", .68}}}};
}

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("stop_conditions: a value above the threshold, from min_steps on") {
    const auto history = evaluations();
    CHECK_FALSE(stop_if_higher(history, "accuracy", .8));
    CHECK(stop_if_higher(history, "accuracy", .6) ==
          StopReason("accuracy = 0.7 at step 3000 is above 0.6"));
    CHECK_FALSE(stop_if_higher(history, "accuracy", .6, 4000));
    CHECK(stop_if_higher(history, "accuracy", .6, 3500));  // min_steps itself counts
    CHECK_FALSE(stop_if_higher(history, "accuracy", .7));  // the threshold itself is not above
    CHECK_FALSE(stop_if_lower(history, "loss", .4));       // nor below
    CHECK(stop_if_lower(history, "loss", .405) ==
          StopReason("loss = 0.4 at step 3000 is below 0.405"));
  }

  TEST_CASE("stop_conditions: no increase and no decrease, the exact number of steps counts") {
    const auto history = evaluations();
    CHECK_FALSE(stop_if_no_increase(history, "accuracy", 1500));
    CHECK(stop_if_no_increase(history, "accuracy", 500) ==
          StopReason("accuracy has not increased for 500 steps: the best was 0.7 at step 3000"));
    CHECK_FALSE(stop_if_no_increase(history, "accuracy", 501));
    CHECK_FALSE(stop_if_no_increase(history, "accuracy", 500, 4000));
    CHECK_FALSE(stop_if_no_decrease(history, "loss", 1500));
    CHECK(stop_if_no_decrease(history, "loss", 500));
    CHECK_FALSE(stop_if_no_decrease(history, "loss", 501));
    CHECK_FALSE(stop_if_no_decrease(history, "loss", 500, 4000));
  }

  TEST_CASE("stop_conditions: two conditions, one of them is enough") {
    const auto stops = [history = evaluations()](std::int64_t steps, double threshold) {
      const FakeClock clock;
      FakeRun run;
      const auto first = make_early_stopping(
          [&] { return stop_if_no_decrease(history, "loss", steps); }, Every::n_steps(1), clock);
      const auto second = make_early_stopping(
          [&] { return stop_if_lower(history, "loss", threshold); }, Every::n_steps(1), clock);
      run.take_step(*first);
      run.take_step(*second);
      return run.stops();
    };
    CHECK_FALSE(stops(1500, .3));
    CHECK(stops(1500, .5));
    CHECK(stops(500, .3));
  }

  TEST_CASE("stop_conditions: only a strictly better value is better") {
    const ScalarHistory flat = {{10, {{"loss", 1}}}, {20, {{"loss", 1}}}};
    CHECK(stop_if_no_decrease(flat, "loss", 10));
    CHECK(stop_if_no_increase(flat, "loss", 10));
  }

  TEST_CASE("stop_conditions: a stretch without progress counts, also when progress came later") {
    const ScalarHistory late = {
        {10, {{"loss", 1}}}, {20, {{"loss", 2}}}, {30, {{"loss", 3}}}, {40, {{"loss", 0}}}};
    CHECK(stop_if_no_decrease(late, "loss", 20));
    CHECK_FALSE(stop_if_no_decrease(late, "loss", 30));
  }

  TEST_CASE("stop_conditions: NaN is never better, and the first number after it is") {
    const ScalarHistory dead = {{10, {{"loss", kNan}}}, {20, {{"loss", kNan}}}};
    CHECK(stop_if_no_decrease(dead, "loss", 10) ==
          StopReason("loss has not decreased for 10 steps: it has been NaN since step 10"));
    CHECK_FALSE(stop_if_no_decrease(dead, "loss", 11));
    CHECK_FALSE(stop_if_lower(dead, "loss", 1));
    CHECK_FALSE(stop_if_higher(dead, "loss", -1));
    const ScalarHistory recovers = {{10, {{"loss", kNan}}}, {20, {{"loss", 5}}}};
    CHECK_FALSE(stop_if_no_decrease(recovers, "loss", 15));
    CHECK_FALSE(stop_if_no_decrease(recovers, "loss", 10));
    const ScalarHistory breaks = {{10, {{"loss", 5}}}, {20, {{"loss", kNan}}}, {30, {{"loss", 6}}}};
    CHECK(stop_if_no_decrease(breaks, "loss", 20));
  }

  TEST_CASE("stop_conditions: an empty history is no reason, a metric nobody has is an error") {
    CHECK_FALSE(stop_if_no_decrease({}, "loss", 1));
    CHECK_FALSE(stop_if_higher({}, "loss", 0));
    CHECK_THROWS_WITH_AS((void)stop_if_lower(evaluations(), "acuracy", .5),
                         doctest::Contains("name one of: accuracy, loss."), ConfigError);
    CHECK_THROWS_AS((void)stop_if_no_increase(evaluations(), "f1", 500, 4000), ConfigError);
    const ScalarHistory mixed = {{10, {{"other", 1}}}, {20, {{"loss", .1}}}};
    CHECK(stop_if_lower(mixed, "loss", .2));  // missing at some steps only
  }

  TEST_CASE("stop_conditions: less than one step of patience is refused") {
    CHECK_THROWS_AS((void)stop_if_no_decrease(evaluations(), "loss", 0), ConfigError);
    CHECK_THROWS_AS((void)stop_if_no_increase({}, "loss", -1), ConfigError);
  }

  TEST_CASE("early_stopping: asks after the run's first step and then once a period") {
    FakeClock clock;
    FakeRun run(500);
    std::vector<std::int64_t> asked;
    const auto action = make_early_stopping(
        [&]() -> StopReason {
          asked.push_back(run.step());
          return asked.size() < 3 ? StopReason() : StopReason("enough");
        },
        Every::n_seconds(60), clock);
    CHECK(action->chief_only());
    action->begin();
    for (int i = 0; i < 5; ++i) {
      run.take_step(*action);
      clock.advance(Seconds(30));
    }
    CHECK(asked == std::vector<std::int64_t>{501, 503, 505});
    CHECK(run.reasons() == std::vector<std::string>{"enough"});
  }

  TEST_CASE("early_stopping: a run that goes on asks anew at its first step") {
    const FakeClock clock;
    FakeRun run;
    const auto action =
        make_early_stopping([] { return StopReason("still"); }, Every::n_steps(1000), clock);
    for (std::size_t runs = 1; runs <= 2; ++runs) {
      action->begin();
      run.take_step(*action);
      CHECK(run.reasons().size() == runs);
    }
  }

  TEST_CASE("early_stopping: both periods, or no predicate, are refused") {
    const FakeClock clock;
    const auto never = [] { return StopReason(); };
    CHECK_THROWS_WITH_AS((void)make_early_stopping(never, Every{10, Seconds(60)}, clock),
                         doctest::Contains("early stopping was given both"), ConfigError);
    CHECK_THROWS_AS((void)make_early_stopping(never, Every{}, clock), ConfigError);
    CHECK_THROWS_AS((void)make_early_stopping(nullptr, Every::n_steps(1), clock), ConfigError);
  }
}
