// Reinforcement learning through the real command line: a program that makes its examples itself
// learns, is the same on any number of workers, and goes on after kills as if there had been none.
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

using nlohmann::json;
using troupe::testing::hash_in;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::Process;
using troupe::testing::ProcessResult;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

const Words kCartPole{kBuild + "/examples/cart_pole",
                      "--json-summary",
                      "--batch-size",
                      "8",
                      "--learning-rate",
                      "0.001"};

Words on_two(const Words& command) {
  return Words{kBuild + "/troupe", "run", "--workers", "2", "--no-prefix", "--"} + command;
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: cart_pole plays the same however many workers play") {
    // A last bit that differs is another action some hundred steps later.
    const Words few = kCartPole + Words{"--max-steps", "2"};
    const json alone = summary(run_on(1, few));
    const auto check = [&](const json& other) {
      for (const char* loss : {"actor", "critic"}) {
        const double expected = alone["train"][loss];
        CHECK(std::abs(other["train"][loss].get<double>() - expected) <
              1e-4 * std::max(1.0, std::abs(expected)));
      }
      CHECK(other["train"]["return"] == alone["train"]["return"]);
    };
    check(summary(run_on(2, few)));
    check(summary(run_on(3, few)));
    check(summary(run_on(1, few + Words{"--devices", "cpu:0-1"})));
  }

  TEST_CASE("examples: cart_pole is killed three times to one hash") {
    const auto in = [](const TempDir& dir) {
      return on_two(kCartPole + Words{"--max-steps", "24", "--save-every", "4", "--model-dir",
                                      dir.path().string()});
    };
    const TempDir whole;
    const ProcessResult expected = run_process(in(whole), {}, kLimit);
    INFO(expected.err);
    REQUIRE(expected.exit_code == 0);
    CHECK(expected.err.find("round 2: ") != std::string::npos);

    const TempDir killed;
    for (const int step : {4, 12, 20}) {  // in the middle of three rounds
      CAPTURE(step);
      Process run(in(killed));
      REQUIRE(run.wait_for_output("model.ckpt-" + std::to_string(step) + " (", kLimit));
      run.signal(SIGKILL);
      CHECK(run.wait(kLimit).signal == SIGKILL);
    }
    const ProcessResult rest = run_process(in(killed), {}, kLimit);
    INFO(rest.err);
    REQUIRE(rest.exit_code == 0);
    CHECK(rest.err.find("resuming at step ") != std::string::npos);
    CHECK(hash_in(rest.err) == hash_in(expected.err));

    // Another number of workers has other environments: they begin anew, and the log says so.
    const ProcessResult other =
        run_on(1, kCartPole + Words{"--max-steps", "26", "--model-dir", killed.path().string()});
    CHECK(other.exit_code == 0);
    CHECK(other.err.find("random streams and replicas' own tensors start anew") !=
          std::string::npos);
  }

  TEST_CASE("examples: cart_pole is refused where a replica's own would be lost") {
    const auto check = [](const Words& start, const Words& flags, const char* why) {
      CAPTURE(why);
      const auto result =
          run_process(start + kCartPole + Words{"--max-steps", "2"} + flags, {}, kLimit);
      CHECK(result.exit_code == 2);
      CHECK(result.err.find(why) != std::string::npos);
    };
    const Words run{kBuild + "/troupe", "run", "--no-prefix", "--workers", "2"};
    check({}, {"--virtual-replicas", "4"}, "virtual replicas share the replicas they run on");
    check(run + Words{"--min-workers", "1", "--"}, {"--virtual-replicas", "2"},
          "virtual replicas share the replicas they run on");
    check(run + Words{"--ps", "1", "--"},
          {"--strategy", "parameter-server", "--staleness-bound", "0"},
          "a checkpoint has the chief's alone");
  }
}
