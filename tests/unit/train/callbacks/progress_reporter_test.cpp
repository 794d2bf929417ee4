// Where training stands: what the sinks are told, and when.
#include "troupe/train/callbacks/progress_reporter.h"

#include <memory>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"

using troupe::Progress;
using troupe::ProgressReporter;
using troupe::Report;
using troupe::Seconds;
using troupe::StepReport;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;
using Activity = Progress::Activity;

namespace {

struct Reporting {
  /// One step of 64 examples.
  void step(double seconds, troupe::LossValues losses = {}) {
    clock.advance(Seconds(seconds));
    run.set_step(run.step() + 1);
    reporter.after_step({run.step(), 0, 64, std::move(losses), 0.01}, run);
  }
  [[nodiscard]] const Progress& last() const { return told.back(); }

  FakeClock clock;
  FakeRun run{100};
  std::vector<Progress> told;
  ProgressReporter reporter{
      2, 1000, "round", clock, {[this](const Progress& progress) { told.push_back(progress); }}};
};

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("progress_reporter: it tells ten times a second, and the last step at once") {
    Reporting now;
    now.reporter.ready(now.run);
    REQUIRE(now.told.size() == 1);
    CHECK(now.last().activity == Activity::training);
    CHECK(now.last().rank == 2);
    CHECK(now.last().first_step == 100);
    CHECK(now.last().total_steps == 1000);
    for (int i = 0; i < 100; ++i) now.step(0.01);
    CHECK(now.told.size() >= 10);
    CHECK(now.told.size() <= 11);
    now.run.set_step(999);
    now.step(0.001);
    CHECK(now.last().step == 1000);
  }

  TEST_CASE("progress_reporter: rates are those of the last seconds, without pauses") {
    Reporting now;
    now.reporter.ready(now.run);
    for (int i = 0; i < 200; ++i) now.step(0.1);
    CHECK(now.last().steps_per_second == doctest::Approx(10));
    CHECK(now.last().examples_per_second == doctest::Approx(640));
    CHECK(now.last().examples == 200 * 64);
    for (int i = 0; i < 40; ++i) now.step(0.2);  // slower: 8 seconds, of which 5 count
    CHECK(now.last().steps_per_second == doctest::Approx(5));
    now.reporter.before_validation();
    CHECK(now.last().activity == Activity::validating);
    CHECK(now.last().steps_per_second == doctest::Approx(5));
    now.clock.advance(Seconds(60));
    Report validation;
    validation.losses = {{"loss", 0.25}};
    validation.metrics = {{"accuracy", 0.875, {}}};
    now.reporter.after_epoch(0, {}, &validation);
    CHECK(now.last().activity == Activity::training);
    CHECK(now.last().validation == troupe::NamedValues{{"loss", 0.25}, {"accuracy", 0.875}});
    CHECK(now.last().validation_step == 340);
    now.step(0.2);
    CHECK(now.last().steps_per_second == doctest::Approx(5));
  }

  TEST_CASE("progress_reporter: losses are the last ones known, and none is asked for") {
    Reporting now;
    CHECK_FALSE(now.reporter.wants_losses(101, true));
    CHECK_FALSE(now.reporter.chief_only());
    now.reporter.ready(now.run);
    now.step(1, {{"loss", 0.5}});
    now.step(1);
    CHECK(now.last().losses == troupe::NamedValues{{"loss", 0.5}});
    CHECK(now.last().learning_rate == 0.01);
    now.reporter.end(now.run);
    CHECK(now.last().activity == Activity::ended);
  }
}
