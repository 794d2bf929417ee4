// The actions that end training: by step, by time, by the newest checkpoint.
#include <optional>
#include <vector>

#include "core/error.h"
#include "tests/support/captured_log.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"
#include "train/callbacks/stop_after_seconds.h"
#include "train/callbacks/stop_at_checkpoint_step.h"
#include "train/callbacks/stop_at_step.h"

using troupe::ConfigError;
using troupe::Seconds;
using troupe::StopAfterSeconds;
using troupe::StopAtCheckpointStep;
using troupe::StopAtStep;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;

namespace {

bool stops_at(StopAtStep& action, std::int64_t start, std::int64_t step) {
  FakeRun run(start);
  action.ready(run);
  run.after_step(action, step);
  return run.stops();
}

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("stop_at_step: T122 num_steps 10 from step 5 stops at 15 and later") {
    StopAtStep action({10, std::nullopt});
    CHECK_FALSE(stops_at(action, 5, 13));
    CHECK_FALSE(stops_at(action, 5, 14));
    CHECK(stops_at(action, 5, 15));
    CHECK(stops_at(action, 5, 16));
    CHECK_FALSE(stops_at(action, 100, 109));  // a later run counts from its own start
  }

  TEST_CASE("stop_at_step: T122 last_step 10 stops at 10 and later") {
    StopAtStep action({std::nullopt, 10});
    CHECK_FALSE(stops_at(action, 5, 9));
    CHECK(stops_at(action, 5, 10));
    CHECK(stops_at(action, 5, 11));
  }

  TEST_CASE("stop_at_step: a run that starts at the last step is stopped before it takes one") {
    StopAtStep action({std::nullopt, 10});
    FakeRun before(9);
    action.ready(before);
    CHECK_FALSE(before.stops());
    FakeRun at(10);
    action.ready(at);
    CHECK(at.stops());
  }

  TEST_CASE("stop_at_step: both, neither, or less than 1 is refused") {
    CHECK_THROWS_WITH_AS(StopAtStep({10, 10}), doctest::Contains("both"), ConfigError);
    CHECK_THROWS_WITH_AS(StopAtStep({std::nullopt, std::nullopt}), doctest::Contains("neither"),
                         ConfigError);
    CHECK_THROWS_AS(StopAtStep({0, std::nullopt}), ConfigError);
    CHECK_THROWS_AS(StopAtStep({std::nullopt, 0}), ConfigError);
  }

  TEST_CASE("stop_after_seconds: T72 stops 1000 s after begin, and time before begin is ignored") {
    FakeClock clock;
    FakeRun run;
    StopAfterSeconds action(Seconds(1000), clock);
    clock.advance(Seconds(5000));
    action.begin();
    clock.advance(Seconds(500));
    run.take_step(action);
    CHECK_FALSE(run.stops());
    clock.advance(Seconds(400));
    run.take_step(action);
    CHECK_FALSE(run.stops());
    clock.advance(Seconds(200));
    run.take_step(action);
    CHECK(run.stops());
  }

  TEST_CASE("stop_after_seconds: the chief decides, and a limit of 0 is refused") {
    const FakeClock clock;
    CHECK(StopAfterSeconds(Seconds(1), clock).chief_only());
    CHECK_THROWS_AS(StopAfterSeconds(Seconds(0), clock), ConfigError);
  }

  TEST_CASE("stop_at_checkpoint_step: T132 goes on without a checkpoint of the last step") {
    const troupe::testing::CapturedLog log;
    FakeRun run;
    std::optional<std::int64_t> saved;
    std::vector<double> waits;
    StopAtCheckpointStep action(
        10, [&] { return saved; }, [&](Seconds time) { waits.push_back(time.count()); }, {});
    run.after_step(action, 9);
    CHECK_FALSE(run.stops());
    CHECK(waits.empty());
    run.after_step(action, 10);  // no checkpoint
    CHECK_FALSE(run.stops());
    saved = 9;
    run.after_step(action, 11);  // below
    CHECK_FALSE(run.stops());
    CHECK(waits == std::vector<double>{30, 30});
    saved = 10;
    run.after_step(action, 12);
    CHECK(run.stops());
    CHECK(waits.size() == 2);
  }

  TEST_CASE("stop_at_checkpoint_step: stops by the checkpoint, also where its own step is behind") {
    FakeRun run;
    StopAtCheckpointStep action(
        10, [] { return std::optional<std::int64_t>(12); }, [](Seconds) {}, {});
    run.after_step(action, 3);
    CHECK(run.stops());
  }

  TEST_CASE("stop_at_checkpoint_step: all its waits together are bounded") {
    const troupe::testing::CapturedLog log;
    FakeRun run;
    Seconds waited(0);
    StopAtCheckpointStep action(
        10, [] { return std::optional<std::int64_t>(4); }, [&](Seconds time) { waited += time; },
        {Seconds(30), Seconds(100)});
    for (int pass = 0; pass < 2; ++pass) {  // begin gives the patience back
      waited = Seconds(0);
      action.begin();
      for (int i = 0; i < 4; ++i) run.after_step(action, 10 + i);
      CHECK(waited == Seconds(100));
      CHECK_THROWS_WITH_AS(run.after_step(action, 14), doctest::Contains("the newest is of step 4"),
                           troupe::TimeoutError);
      CHECK(waited == Seconds(100));
    }
    CHECK_FALSE(run.stops());
  }

  TEST_CASE("stop_at_checkpoint_step: numbers that are not above 0 are refused") {
    const auto make = [](std::int64_t last, double poll, double total) {
      return StopAtCheckpointStep(
          last, [] { return std::nullopt; }, [](Seconds) {}, {Seconds(poll), Seconds(total)});
    };
    CHECK_NOTHROW(make(1, 1, 1));
    CHECK_THROWS_AS(make(0, 1, 1), ConfigError);
    CHECK_THROWS_AS(make(1, 0, 1), ConfigError);
    CHECK_THROWS_AS(make(1, 1, 0), ConfigError);
  }
}
