#include <utility>
#include <vector>

#include "tests/support/captured_log.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/train/callbacks/summary_saver.h"

using troupe::Every;
using troupe::Seconds;
using troupe::StepCounter;
using troupe::testing::CapturedLog;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;

namespace {

using Speeds = std::vector<std::pair<std::int64_t, double>>;

StepCounter::Output into(Speeds& speeds) {
  return [&speeds](std::int64_t step, double speed, double examples_per_second) {
    CHECK(examples_per_second == speed);  // FakeRun's steps have an example each
    speeds.emplace_back(step, speed);
  };
}

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("step_counter: every 10 over 30 steps gives 2 records, at 11 and 21") {
    FakeClock clock;
    FakeRun run;
    Speeds speeds;
    StepCounter counter(Every::n_steps(10), into(speeds), clock);
    counter.begin();
    for (int i = 0; i < 30; ++i) {
      clock.advance(Seconds(0.25));
      run.take_step(counter);
    }
    CHECK(speeds == Speeds{{11, 4.0}, {21, 4.0}});
  }

  TEST_CASE("step_counter: by seconds, the speed is that of the steps in between") {
    FakeClock clock;
    FakeRun run(100);
    Speeds speeds;
    StepCounter counter(Every::n_seconds(1), into(speeds), clock);
    counter.begin();
    for (int i = 0; i < 8; ++i) {
      run.take_step(counter);
      clock.advance(Seconds(0.5));
    }
    CHECK(speeds == Speeds{{103, 2.0}, {105, 2.0}, {107, 2.0}});
  }

  TEST_CASE("step_counter: examples count as they are, and for steps of other workers as the own") {
    FakeClock clock;
    FakeRun run;
    std::vector<double> speeds;
    StepCounter counter(
        Every::n_steps(4),
        [&](std::int64_t /*step*/, double /*steps*/, double examples) {
          speeds.push_back(examples);
        },
        clock);
    counter.begin();
    for (const auto& [step, examples] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 64}, {2, 64}, {3, 64}, {4, 64}, {5, 8}, {7, 10}, {9, 10}}) {
      clock.advance(Seconds(0.5));
      counter.after_step({step, 0, examples, {}}, run);
    }
    CHECK(speeds == std::vector<double>{100, 40});  // (3 * 64 + 8) / 2 s; 4 steps of 10 in 1 s
  }

  TEST_CASE("step_counter: a second run starts its period anew") {
    FakeClock clock;
    FakeRun run;
    Speeds speeds;
    StepCounter counter(Every::n_steps(1), into(speeds), clock);
    run.take_step(counter);
    clock.advance(Seconds(1000));
    counter.begin();
    run.take_step(counter);
    CHECK(speeds.empty());
  }

  TEST_CASE("step_counter: a clock that stands still gives no speed") {
    const FakeClock clock;
    FakeRun run;
    Speeds speeds;
    StepCounter counter(Every::n_steps(1), into(speeds), clock);
    for (int i = 0; i < 5; ++i) run.take_step(counter);
    CHECK(speeds.empty());
  }

  TEST_CASE("step_counter: warns after 20 checks in a row without an increase, and not before") {
    const FakeClock clock;
    FakeRun run;
    Speeds speeds;
    StepCounter counter(Every::n_steps(10), into(speeds), clock);
    const CapturedLog log;
    for (int i = 0; i < 20; ++i) run.after_step(counter, 5);  // the first is no repetition
    CHECK(log.count(" W ") == 0);
    run.after_step(counter, 6);
    for (int i = 0; i < 19; ++i) run.after_step(counter, 6);
    CHECK(log.count(" W ") == 0);
    run.after_step(counter, 6);
    CHECK(log.count("the step has been 6 for 20 checks") == 1);
    for (int i = 0; i < 20; ++i) run.after_step(counter, 6);
    CHECK(log.count(" W ") == 2);
  }

  TEST_CASE("step_counter: runs on the chief, and refuses a bad period under its name") {
    const FakeClock clock;
    Speeds speeds;
    CHECK(StepCounter(Every::n_steps(1), into(speeds), clock).chief_only());
    CHECK_THROWS_WITH_AS(StepCounter(Every::n_steps(0), into(speeds), clock),
                         doctest::Contains("StepCounter"), troupe::ConfigError);
  }
}
