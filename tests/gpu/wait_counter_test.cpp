// The counter of waits, preloaded into a program that calls a stand-in for the CUDA runtime.
#include "tests/gpu/wait_counter.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/gpu/fake_cudart.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

namespace troupe::gpu {
namespace {

using testing::run_process;

TEST_SUITE("gpu") {
  TEST_CASE("wait_counter: counts by thread and by function, and passes everything on") {
    const testing::TempDir dir;
    const std::string file = (dir / "waits.jsonl").string();
    const auto result = run_process(
        {TROUPE_WAIT_CALLS}, {{{"LD_PRELOAD", TROUPE_WAIT_COUNTER}, {kWaitsFile, file}}, {}, {}});
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out == "thread 1 1 1 1 1 1 1 1\nprocess 3 2 2 2 2 2 2 2\n");

    std::ifstream lines(file);
    std::string line;
    REQUIRE(std::getline(lines, line));
    const auto json = nlohmann::json::parse(line);
    CHECK(json["program"] == "wait_calls");
    REQUIRE(json["threads"].size() == 2);
    const std::chrono::duration<double> wait = kFakeWait;
    for (std::size_t i = 0; i < kWaits; ++i) {
      CAPTURE(kWaitNames[i]);
      const auto& counted = json["waits"][kWaitNames[i]];
      const int calls = i == 0 ? 3 : 2;
      CHECK(counted["calls"] == calls);
      CHECK(counted["seconds"] >= calls * wait.count());
    }
    CHECK_FALSE(std::getline(lines, line));
  }

  TEST_CASE("wait_counter: a program runs without it, and one that never waits counts nothing") {
    const auto without = run_process({TROUPE_WAIT_CALLS}, {{}, {"LD_PRELOAD"}, {}});
    CHECK(without.exit_code == 0);
    CHECK(without.out == "no counter\n");

    const testing::TempDir dir;
    const std::string file = (dir / "waits.jsonl").string();
    CHECK(run_process({"/bin/true"},
                      {{{"LD_PRELOAD", TROUPE_WAIT_COUNTER}, {kWaitsFile, file}}, {}, {}})
              .exit_code == 0);
    std::ifstream lines(file);
    const auto json = nlohmann::json::parse(lines);
    CHECK(json["waits"].empty());
    CHECK(json["threads"].empty());
  }
}

}  // namespace
}  // namespace troupe::gpu
