// The chief's log line and its JSON sibling: which steps, and what they say.
#include "train/callbacks/step_log.h"

#include <algorithm>
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

TEST_SUITE("train/callbacks") {
  TEST_CASE("step_log: the first line has no speed, later ones have") {
    FakeClock clock;
    FakeRun run;
    StepLog log(clock);
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
    StepLog log(clock, 10);
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
    MetricsFile file(folder / "metrics", MetricsFile::Open::anew, clock, 2);
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

  TEST_CASE("progress_bar: it is shorter than any terminal, or there is none") {
    for (int columns = 0; columns < 120; ++columns) {
      const std::string line = troupe::progress_line(50, 100, columns);
      CHECK(line.size() < static_cast<std::size_t>(std::max(columns, 1)));
      CHECK(line.empty() == (columns < 23));
    }
    CHECK(troupe::progress_line(50, 100, 28) == "[=====     ] step 50 of 100");
    CHECK(troupe::progress_line(120, 100, 24) == "[=====] step 120 of 100");
    CHECK(troupe::progress_line(1, 9, 80).size() == 30 + std::string("[] step 1 of 9").size());
  }

  TEST_CASE("progress_bar: a log line takes its place, and it is drawn again below") {
    FakeClock clock;
    FakeRun run;
    const CapturedLog captured;
    {
      troupe::ProgressBar bar(2, clock);
      clock.advance(Seconds(1));
      run.take_step(bar);
      troupe::log_debug("too fine to be shown");
      troupe::log_warning("from anywhere");
    }
    const std::string bar = "[" + std::string(15, '=') + std::string(15, ' ') + "] step 1 of 2";
    const std::string erase = "\r\033[K";
    const std::string shown = captured.text();
    REQUIRE(shown.find(" W from anywhere\n") != std::string::npos);
    const auto stamp = shown.find('Z') + 1 - (erase + bar + erase).size();
    CHECK(shown == erase + bar + erase + shown.substr((erase + bar + erase).size(), stamp) +
                       " W from anywhere\n" + bar + erase);
  }

  TEST_CASE("metrics_file: an epoch that ends without a step is of the step before") {
    const troupe::testing::TempDir folder;
    const FakeClock clock;
    FakeRun run(40);
    MetricsFile file(folder / "metrics", MetricsFile::Open::append, clock);
    file.begin();
    file.ready(run);
    file.after_epoch(3, {}, nullptr);
    std::ifstream in(folder / "metrics");
    CHECK(nlohmann::json::parse(in)["step"] == 40);
  }

  TEST_CASE("step_log: log, metrics file and progress bar are the chief's") {
    const troupe::testing::TempDir folder;
    const FakeClock clock;
    CHECK(StepLog(clock).chief_only());
    CHECK(MetricsFile(folder / "metrics", MetricsFile::Open::anew, clock).chief_only());
    CHECK(troupe::ProgressBar(10, clock).chief_only());
  }
}
