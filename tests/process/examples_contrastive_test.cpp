// Contrastive learning, which compares the examples of all replicas, through the real command line:
// the same losses however many train, and refused where no replica sees all rows.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

using nlohmann::json;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

const Words kContrastive{kBuild + "/examples/contrastive",
                         "--json-summary",
                         "--learning-rate",
                         "0.3",
                         "--batch-size",
                         "64",
                         "--train-examples",
                         "600"};

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: contrastive takes the same steps on every strategy") {
    // The tenth batch has 24 pictures: on 2 x 2 replicas shares are as short as they get.
    const Words few = kContrastive + Words{"--max-steps", "12"};
    const Words replicas{"--devices", "cpu:0-1"};
    const json alone = summary(run_on(1, few));
    const auto check = [&](const json& other) {
      for (const char* loss : {"contrast", "probe"}) {
        const double expected = alone["train"][loss];
        CHECK(std::abs(other["train"][loss].get<double>() - expected) < 1e-5 * expected);
      }
      CHECK(other["test"]["correct"] == alone["test"]["correct"]);
    };
    check(summary(run_on(1, few + replicas)));
    check(summary(run_on(2, few)));
    check(summary(run_on(3, few)));
    check(summary(run_on(2, few + replicas)));
  }

  TEST_CASE("examples: contrastive learns from pictures alone, and resumes bit for bit") {
    const json learnt = summary(run_on(1, kContrastive + Words{"--epochs", "8"}));
    CHECK(learnt["train"]["contrast"] < 4);  // 4.8, log 127, is chance
    CHECK(learnt["test"]["probe_accuracy"] > 0.5);
    const TempDir whole;
    const TempDir halves;
    const auto in = [](const TempDir& dir, const char* steps) {
      return Words{"--max-steps", steps, "--model-dir", dir.path().string()};
    };
    const json expected = summary(run_on(2, kContrastive + in(whole, "12")));
    (void)summary(run_on(2, kContrastive + in(halves, "7")));
    const json resumed = summary(run_on(2, kContrastive + in(halves, "12")));
    CHECK(resumed["parameter_hash"] == expected["parameter_hash"]);
  }

  TEST_CASE("examples: contrastive is refused where no replica has all rows") {
    const auto check = [](const Words& start, const Words& flags, const char* why) {
      CAPTURE(why);
      const auto result = run_process(start + kContrastive + flags, {}, kLimit);
      CHECK(result.exit_code == 2);
      CHECK(result.err.find(why) != std::string::npos);
    };
    const Words run{kBuild + "/troupe", "run", "--no-prefix", "--workers", "2"};
    const Words program{"--"};
    check({}, {"--accumulate", "2"}, "--accumulate computes them in parts");
    check({}, {"--virtual-replicas", "4"}, "needs all replicas at the same time");
    check(run + Words{"--min-workers", "1"} + program, {"--virtual-replicas", "2"},
          "in an elastic group nothing is summed within a step");
    check(run + Words{"--ps", "1"} + program,
          {"--strategy", "parameter-server", "--staleness-bound", "0"},
          "which no process has with synchronous parameter servers");
  }
}
