#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"
#include "troupe/train/callbacks/summary_saver.h"

using troupe::Seconds;
using troupe::StepCounter;
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
    StepCounter counter(10, into(speeds), clock);
    for (int i = 0; i < 30; ++i) {
      clock.advance(Seconds(0.25));
      run.take_step(counter);
    }
    CHECK(speeds == Speeds{{11, 4.0}, {21, 4.0}});
  }

  TEST_CASE("step_counter: examples count as they are, and for steps of other workers as the own") {
    FakeClock clock;
    FakeRun run;
    std::vector<double> speeds;
    StepCounter counter(
        4,
        [&](std::int64_t /*step*/, double /*steps*/, double examples) {
          speeds.push_back(examples);
        },
        clock);
    for (const auto& [step, examples] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 64}, {2, 64}, {3, 64}, {4, 64}, {5, 8}, {7, 10}, {9, 10}}) {
      clock.advance(Seconds(0.5));
      counter.after_step({step, 0, examples, {}}, run);
    }
    CHECK(speeds == std::vector<double>{100, 40});  // (3 * 64 + 8) / 2 s; 4 steps of 10 in 1 s
  }

  TEST_CASE("step_counter: a clock that stands still gives no speed") {
    const FakeClock clock;
    FakeRun run;
    Speeds speeds;
    StepCounter counter(1, into(speeds), clock);
    for (int i = 0; i < 5; ++i) run.take_step(counter);
    CHECK(speeds.empty());
  }
}
