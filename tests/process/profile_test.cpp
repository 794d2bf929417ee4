// --profile through the real command line: one file, all workers on one axis.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace profile_test {

using nlohmann::json;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::ProcessOptions;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

const Words kTwelveSteps = {kBuild + "/examples/linear_regression", "--max-steps", "12"};

struct Interval {
  double start = 0;
  double end = 0;
};

/// The complete events of that name in a process, in the order of their starts.
std::vector<Interval> named(const json& profile, const std::string& name, int process) {
  std::vector<Interval> intervals;
  for (const json& event : profile["traceEvents"]) {
    if (event["ph"] != "X" || event["name"] != name || event["pid"] != process) continue;
    const double start = event["ts"].get<double>();
    intervals.push_back({start, start + event["dur"].get<double>()});
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  return intervals;
}

json read(const std::filesystem::path& path) {
  CAPTURE(path.string());
  std::ifstream file(path);
  REQUIRE(file.good());
  return json::parse(file);
}

/// What ui.perfetto.dev and chrome://tracing need of each event.
void check_format(const json& profile) {
  std::set<std::pair<int, int>> named_threads;
  for (const json& event : profile.at("traceEvents")) {
    if (event.at("ph") == "M") {
      REQUIRE(event.at("args").at("name").is_string());
      named_threads.emplace(event.at("pid"), event.at("tid"));
      continue;
    }
    REQUIRE(event.at("ph") == "X");
    REQUIRE(event.at("name").is_string());
    REQUIRE(event.at("ts").get<double>() >= 0);
    REQUIRE(event.at("dur").get<double>() >= 0);
    REQUIRE(named_threads.count({event.at("pid"), event.at("tid")}) == 1);
  }
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("profile: two workers' intervals lie on one axis") {
    const TempDir dir;
    const auto result = run_on(2, kTwelveSteps + Words{"--profile", "4", "--model-dir",
                                                       dir.path().string(), "--save-every", "5"});
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const json profile = read(dir / "profile-7.json");
    check_format(profile);
    CHECK(profile["otherData"]["first_step"] == 4);
    for (int process : {1, 2}) {
      for (const char* name : {"train_step", "backward", "apply_gradients", "reduce gradients",
                               "optimizer step", "aten::addmm"}) {
        CAPTURE(name);
        CHECK(named(profile, name, process).size() == 4);
      }
      CHECK(named(profile, "step 4", process).size() == 1);
      CHECK(named(profile, "wait for batch", process).size() == 3);
      CHECK(named(profile, "save", process).size() == 1);  // after step 5
    }
    // Nobody has a sum before both have given theirs: the k-th sums of both have a common moment.
    const auto mine = named(profile, "all_reduce", 1);
    const auto theirs = named(profile, "all_reduce", 2);
    REQUIRE(mine.size() >= 8);  // of gradients, and at each boundary
    REQUIRE(mine.size() == theirs.size());
    const double error = profile["otherData"]["clocks"][1]["error_us"].get<double>();
    CHECK(error < 1e6);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      CHECK(std::max(mine[i].start, theirs[i].start) <=
            std::min(mine[i].end, theirs[i].end) + error + 1);
    }
  }

  TEST_CASE("profile: alone, without a model directory, and in a training that ends too early") {
    const TempDir dir;
    ProcessOptions here;
    here.directory = dir.path().string();
    REQUIRE(run_process(kTwelveSteps + Words{"--profile", "100"}, here, kLimit).exit_code == 0);
    const json profile = read(dir / "profile-12.json");
    check_format(profile);
    CHECK(named(profile, "train_step", 1).size() == 9);
    CHECK(named(profile, "all_reduce", 1).empty());
    const Words two = {kTwelveSteps[0], "--max-steps", "2", "--profile", "1"};
    const auto none = run_process(two, here, kLimit);
    CHECK(none.exit_code == 0);
    CHECK(none.err.find("--profile recorded nothing") != std::string::npos);
  }

  TEST_CASE("profile: beside parameter servers each worker has a file of its own") {
    const TempDir dir;
    const Words tool = {kBuild + "/troupe", "run", "--workers", "2", "--ps", "1", "--"};
    const Words program = {kTwelveSteps[0], "--max-steps", "60",          "--staleness-bound", "0",
                           "--profile",     "2",           "--model-dir", dir.path().string()};
    REQUIRE(run_process(tool + program, {}, kLimit).exit_code == 0);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("profile-", 0) == 0) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    REQUIRE(names.size() == 2);
    CHECK(names[0].find("worker") == std::string::npos);
    CHECK(names[1].find(".worker-1.json") != std::string::npos);
    CHECK(named(read(dir / names[1]), "push gradients", 1).size() == 2);
  }
}

}  // namespace profile_test
