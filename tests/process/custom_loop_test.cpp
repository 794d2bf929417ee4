// The loop of examples/custom_loop through the real command line: it carries out what it accepts,
// refuses the rest, and resumes bit for bit wherever it is killed.
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/support/caught.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace custom_loop_test {

using nlohmann::json;
using troupe::text;
using namespace troupe::testing;  // NOLINT

namespace {

const Words kCustomLoop = Words{kBuild + "/examples/custom_loop"} + kFewDigits;
constexpr int kSteps = 24;

/// Six steps an epoch, four epochs.
Words command(const Words& more) {
  return kCustomLoop + Words{"--batch-size", "100", "--train-examples", "600", "--epochs", "4",
                             "--clip",       "0.1", "--json-summary"} +
         more;
}

Words saving_in(const TempDir& dir) {
  return command({"--model-dir", dir.path().string(), "--save-every", "2"});
}

/// Kills the run after `kills` random saves of its own, and lets it end.
json run_with_kills(int workers, int kills, std::mt19937& random) {
  const TempDir dir;
  int saved = 0;
  for (int kill = 0; kill < kills; ++kill) {
    saved += 2 * std::uniform_int_distribution<int>(1, 3)(random);
    Process run(workers == 1 ? saving_in(dir)
                             : Words{kBuild + "/troupe", "run", "--workers", text(workers),
                                     "--no-prefix", "--"} +
                                   saving_in(dir));
    CAPTURE(saved);
    REQUIRE(run.wait_for_output(text("model.ckpt-", saved, " "), kLimit));
    run.signal(SIGKILL);
    CHECK(run.wait(kLimit).signal == SIGKILL);
  }
  return summary(run_on(workers, saving_in(dir)));
}

}  // namespace

TEST_SUITE("custom loop") {
  TEST_CASE("custom loop: --max-steps 3 takes three steps") {
    const json end = summary(run_on(1, command({"--max-steps", "3"})));
    CHECK(end["global_step"] == 3);
    CHECK(end["train"].contains("noisy_loss"));
  }

  TEST_CASE("custom loop: --model-dir saves") {
    const TempDir dir;
    (void)summary(run_on(1, saving_in(dir) + Words{"--max-steps", "4"}));
    CHECK(std::filesystem::exists(dir / "model.ckpt-2"));
    CHECK(std::filesystem::exists(dir / "model.ckpt-4"));
  }

  TEST_CASE("custom loop: what it does not carry out it refuses by name") {
    const auto served = run_process(
        Words{kBuild + "/troupe", "run", "--workers", "1", "--ps", "1", "--no-prefix", "--"} +
            command({}),
        {}, kLimit);
    CHECK(served.exit_code == 2);
    CHECK(has(served.err, "parameter servers hold them"));
    const auto mode = run_process(command({"--mode", "predict"}), {}, kLimit);
    CHECK(mode.exit_code == 2);
    CHECK(has(mode.err, "--mode"));
    CHECK(run_process(command({"--clip", "0"}), {}, kLimit).exit_code == 2);
  }

  TEST_CASE("custom loop: killed again and again it ends with the weights of an untouched run") {
    std::mt19937 random(7);
    for (const int workers : {1, 2}) {
      CAPTURE(workers);
      const json whole = summary(run_on(workers, command({})));
      REQUIRE(whole["global_step"] == kSteps);
      const json killed = run_with_kills(workers, /*kills=*/3, random);
      CHECK(killed["global_step"] == kSteps);
      CHECK(killed["parameter_hash"] == whole["parameter_hash"]);
      CHECK(killed["test"] == whole["test"]);
    }
  }
}

}  // namespace custom_loop_test
