// The chief's log line and its JSON sibling: which steps, and what they say.
#include "troupe/train/callbacks/step_log.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/captured_log.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

using troupe::is_logged_step;
using troupe::MetricsFile;
using troupe::Seconds;
using troupe::StepLog;
using troupe::testing::CapturedLog;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;

namespace {

troupe::Outbox leader(troupe::Outbox::Role::leader);

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("step_log: the first line has no speed, later ones have") {
    FakeClock clock;
    FakeRun run;
    StepLog log(clock, leader);
    log.begin();
    const CapturedLog captured;
    run.take_step(log, {{"loss", 0.5}});
    CHECK(captured.has(" I loss = 0.5, step = 1\n"));
    for (int i = 0; i < 3; ++i) run.take_step(log);
    clock.advance(Seconds(0.5));
    run.take_step(log, {{"loss", 0.25}});
    CHECK(captured.has(
        " I loss = 0.25, step = 5 (0.500 sec), global_step/sec: 8.0, examples/sec: 8\n"));
    CHECK(captured.count(" I ") == 2);
  }

  TEST_CASE("step_log: losses that another action wanted make no line") {
    const FakeClock clock;
    FakeRun run(40);
    StepLog log(clock, leader, 10);
    log.begin();
    const CapturedLog captured;
    for (int i = 0; i < 20; ++i) run.take_step(log, {{"loss", 1}});
    CHECK(captured.count(" I ") == 3);
    CHECK(captured.has("step = 41\n"));
    CHECK(captured.has("step = 50"));
    CHECK(captured.has("step = 60"));
  }

  TEST_CASE("step_log: logged are the first step of a run and the multiples") {
    CHECK(is_logged_step(41, true, 10));
    CHECK_FALSE(is_logged_step(41, false, 10));
    CHECK(is_logged_step(50, false, 10));
    CHECK_FALSE(is_logged_step(1, true, 0));
  }

  TEST_CASE("metrics_file: a line per logged step, and only there") {
    const troupe::testing::TempDir folder;
    FakeClock clock;
    FakeRun run;
    MetricsFile file(folder / "metrics", MetricsFile::Open::anew, clock, leader, 2);
    file.begin();
    clock.advance(Seconds(1.5));
    for (int i = 0; i < 4; ++i) run.take_step(file, {{"loss", 0.5}});
    std::ifstream in(folder / "metrics");
    std::vector<std::int64_t> steps;
    for (std::string line; std::getline(in, line);) {
      const auto entry = nlohmann::json::parse(line);
      CHECK(entry["loss"] == 0.5);
      CHECK(entry["seconds"] == 1.5);
      steps.push_back(entry["step"]);
    }
    CHECK(steps == std::vector<std::int64_t>{1, 2, 4});
  }

  TEST_CASE("step_log: an epoch is one line, with the validation if there was one") {
    const FakeClock clock;
    StepLog log(clock, leader);
    const CapturedLog captured;
    troupe::Report train;
    train.phase = troupe::Phase::train;
    train.examples = 10;
    train.losses = {{"loss", 0.5}};
    troupe::Report validation = train;
    validation.phase = troupe::Phase::validation;
    log.after_epoch(0, train, nullptr);
    log.after_epoch(1, train, &validation);
    CHECK(captured.has(" I epoch 1: train: examples = 10, loss = 0.5\n"));
    CHECK(
        captured.has(" I epoch 2: train: examples = 10, loss = 0.5; validation: examples = 10, "
                     "loss = 0.5\n"));
    CHECK(captured.count(" I ") == 2);
  }

  TEST_CASE("metrics_file: an epoch that ends without a step is of the step before") {
    const troupe::testing::TempDir folder;
    const FakeClock clock;
    FakeRun run(40);
    MetricsFile file(folder / "metrics", MetricsFile::Open::append, clock, leader);
    file.begin();
    file.ready(run);
    file.after_epoch(3, {}, nullptr);
    std::ifstream in(folder / "metrics");
    CHECK(nlohmann::json::parse(in)["step"] == 40);
  }
}
