#include "train/callbacks/profiler.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

using nlohmann::json;
using troupe::Every;
using troupe::Profiler;
using troupe::Seconds;
using troupe::TraceSpan;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;
using troupe::testing::TempDir;

namespace {

// Counts what is asked of it.
class FakeRecorder final : public troupe::SpanRecorder {
 public:
  explicit FakeRecorder(int& running) : running_(running) {}
  void start() override { ++running_; }
  [[nodiscard]] std::vector<TraceSpan> stop() override {
    --running_;
    return {{"matmul", 10, 20, 3}};
  }

 private:
  int& running_;
};

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

json read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return json::parse(in);
}

void take(Profiler& profiler, FakeRun& run, FakeClock& clock, int steps) {
  for (int i = 0; i < steps; ++i) {
    profiler.before_step(run);
    clock.advance(Seconds(0.5));
    const std::int64_t step = run.step() + 1;
    run.after_step(profiler, step);
  }
}

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("profiler: every 2 captures steps 2, 4, 6, a file each") {
    const TempDir folder;
    FakeClock clock;
    FakeRun run;
    Profiler profiler(folder / "traces", Every::n_steps(2), clock);
    profiler.begin();
    profiler.ready(run);
    take(profiler, run, clock, 7);
    CHECK(files_in(folder / "traces") ==
          std::vector<std::string>{"timeline-2.json", "timeline-4.json", "timeline-6.json"});
  }

  TEST_CASE("profiler: the first step of a run is not captured, whatever its number") {
    const TempDir folder;
    FakeClock clock;
    FakeRun run(100);
    Profiler profiler(folder.path(), Every::n_steps(1), clock);
    profiler.ready(run);
    take(profiler, run, clock, 2);
    CHECK(files_in(folder.path()) == std::vector<std::string>{"timeline-102.json"});
    profiler.begin();
    profiler.ready(run);
    take(profiler, run, clock, 2);
    CHECK(files_in(folder.path()) ==
          std::vector<std::string>{"timeline-102.json", "timeline-104.json"});
  }

  TEST_CASE("profiler: by seconds, from the start of the run") {
    const TempDir folder;
    FakeClock clock;
    FakeRun run;
    Profiler profiler(folder.path(), Every::n_seconds(1), clock);
    profiler.ready(run);
    take(profiler, run, clock, 6);  // half a second each
    CHECK(files_in(folder.path()) ==
          std::vector<std::string>{"timeline-3.json", "timeline-6.json"});
  }

  TEST_CASE("profiler: a trace is an array of complete events, the step's first") {
    const TempDir folder;
    FakeClock clock;
    FakeRun run;
    int running = 0;
    Profiler profiler(folder.path(), Every::n_steps(2), clock,
                      std::make_unique<FakeRecorder>(running));
    profiler.ready(run);
    take(profiler, run, clock, 1);
    profiler.before_step(run);
    CHECK(running == 1);
    clock.advance(Seconds(0.5));
    run.after_step(profiler, 2);
    CHECK(running == 0);
    const json trace = read(folder / "timeline-2.json");
    REQUIRE(trace.size() == 2);
    CHECK(trace[0]["name"] == "step 2");
    CHECK(trace[0]["ph"] == "X");
    CHECK(trace[0]["ts"] == 0.0);
    CHECK(trace[0]["dur"] == 500000.0);
    CHECK(trace[0]["pid"].is_number_integer());
    CHECK(trace[0]["tid"] == 0);
    CHECK(trace[1]["name"] == "matmul");
    CHECK(trace[1]["ts"] == 10.0);
    CHECK(trace[1]["dur"] == 20.0);
    CHECK(trace[1]["tid"] == 3);
  }

  TEST_CASE("profiler: a step that is begun and not taken leaves no file and nothing running") {
    const TempDir folder;
    FakeClock clock;
    FakeRun run;
    int running = 0;
    Profiler profiler(folder.path(), Every::n_steps(2), clock,
                      std::make_unique<FakeRecorder>(running));
    profiler.ready(run);
    take(profiler, run, clock, 1);
    profiler.before_step(run);
    CHECK(running == 1);
    profiler.end(run);
    CHECK(running == 0);
    CHECK(files_in(folder.path()).empty());
  }

  TEST_CASE("profiler: runs on the chief, and a bad period or directory is refused") {
    const TempDir folder;
    FakeClock clock;
    FakeRun run;
    std::ofstream(folder / "file") << "in the way";
    CHECK_THROWS_WITH_AS(Profiler("x", Every::n_steps(0), clock), doctest::Contains("Profiler"),
                         troupe::ConfigError);
    Profiler profiler((folder / "file") / "traces", Every::n_steps(2), clock);
    CHECK(profiler.chief_only());
    profiler.ready(run);
    CHECK_THROWS_AS(take(profiler, run, clock, 2), troupe::EnvironmentError);
  }

  TEST_CASE("trace_file: an empty trace and odd names are still JSON") {
    const TempDir folder;
    troupe::write_trace_file(folder / "empty", {});
    CHECK(read(folder / "empty") == json::array());
    troupe::write_trace_file(folder / "odd", {{"a \"quoted\"\nname", 0, 1, 1}, {"\xff", 2, 1, 1}});
    CHECK(read(folder / "odd").at(0).at("name") == "a \"quoted\"\nname");
    CHECK(read(folder / "odd").at(1).at("ts") == 2.0);
    CHECK_THROWS_AS(troupe::write_trace_file(folder / "no/such", {}), troupe::EnvironmentError);
  }
}
