// --shard-optimizer through the real command line: the numbers are those of a run without it, also
// after a resume at any number of workers, and what cannot be divided is refused by name.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/caught.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace sharded_optimizer_test {

using nlohmann::json;
using namespace troupe::testing;  // NOLINT: a test

namespace {

const Words kSharded = {"--shard-optimizer"};

Words mnist(const char* max_steps) {
  return kMnist + Words{"--batch-size",
                        "100",
                        "--seed",
                        "3",
                        "--threads",
                        "1",
                        "--train-examples",
                        "1003",
                        "--max-steps",
                        max_steps,
                        "--json-summary",
                        "--log-every",
                        "1"};
}

Words in(const std::filesystem::path& dir) { return {"--model-dir", dir.string()}; }

std::string hash_of(const ProcessResult& result) { return summary(result)["parameter_hash"]; }

/// Two optimisers, both Adam.
const Words kGan = {kBuild + "/examples/gan",
                    "--data-dir",
                    "synthetic",
                    "--width",
                    "8",
                    "--noise-size",
                    "16",
                    "--batch-size",
                    "32",
                    "--train-examples",
                    "200",
                    "--max-steps",
                    "12",
                    "--clip-norm",
                    "0.5",
                    "--threads",
                    "1",
                    "--json-summary"};

/// Adam.
const Words kRegression = {kBuild + "/examples/regression",
                           "--batch-size",
                           "32",
                           "--max-steps",
                           "12",
                           "--clip-norm",
                           "0.5",
                           "--threads",
                           "1",
                           "--json-summary"};

/// Adam, dropout and batch norm.
const Words kVirtualNet = {kBuild + "/tests/process/trainings",
                           "virtual_net",
                           "--virtual-replicas",
                           "4",
                           "--batch-size",
                           "40",
                           "--epochs",
                           "2",
                           "--clip-norm",
                           "0.5",
                           "--threads",
                           "1",
                           "--json-summary"};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("shard optimizer: workers and replicas end with the bits of a run without it") {
    // SGD with momentum; Adam, clipped.
    for (const Words& steps : {mnist("12"), kGan}) {
      CAPTURE(steps.front());
      const std::string expected = hash_of(run_on(2, steps));
      CHECK(hash_of(run_on(2, steps + kSharded)) == expected);
      CHECK(hash_of(run_on(2, steps + kSharded + Words{"--transport", "tcp"})) == expected);
    }
    const Words mirrored = {"--devices", "cpu:0-1"};
    for (const Words& steps : {mnist("12"), kRegression}) {
      CAPTURE(steps.front());
      CHECK(hash_of(run_on(1, steps + mirrored + kSharded)) ==
            hash_of(run_on(1, steps + mirrored)));
    }
    const Words steps = mnist("12") + mirrored;
    const auto sharded = run_on(2, steps + kSharded);
    CHECK(hash_of(sharded) == hash_of(run_on(2, steps)));
    CHECK(has(sharded.err, "the state of optimiser \"optimizer\" is divided among 4 replicas"));
  }

  TEST_CASE("shard optimizer: saved by 4 workers, resumed by 4, 2 and 1") {
    const TempDir files;
    const auto log_in = [&](const std::string& name) {
      return Words{"--metrics-file", (files / name).string()};
    };
    const std::string expected = hash_of(run_on(4, mnist("12") + kSharded + log_in("whole")));
    const std::vector<double> losses = losses_in((files / "whole").string());
    REQUIRE(losses.size() == 12);
    const TempDir saved;
    CHECK(run_on(4, mnist("5") + kSharded + in(saved.path())).exit_code == 0);
    for (const int workers : {4, 2, 1}) {
      for (const Words& sharded : {kSharded, Words{}}) {
        CAPTURE(workers);
        CAPTURE(sharded.size());
        const TempDir dir;
        std::filesystem::copy(saved.path(), dir.path() / "run",
                              std::filesystem::copy_options::recursive);
        const std::string name = std::to_string(workers) + "-" + std::to_string(sharded.size());
        const auto rest =
            run_on(workers, mnist("12") + sharded + in(dir.path() / "run") + log_in(name));
        if (workers == 4) CHECK(hash_of(rest) == expected);
        const std::vector<double> own = losses_in((files / name).string());
        REQUIRE(own.size() == 7);
        for (std::size_t i = 0; i < own.size(); ++i) {
          CHECK(std::abs(own[i] - losses[i + 5]) <= 1e-5 * losses[i + 5]);
        }
      }
    }
  }

  TEST_CASE("shard optimizer: virtual replicas keep their bits at any width, resumed, too") {
    const std::string expected = hash_of(run_on(1, kVirtualNet));
    const TempDir dir;
    const Words saving = kVirtualNet + kSharded + in(dir.path());
    CHECK(run_on(3, saving + Words{"--max-steps", "4"}).exit_code == 0);
    CHECK(run_on(2, saving + Words{"--max-steps", "8"}).exit_code == 0);
    CHECK(hash_of(run_on(1, saving)) == expected);
  }

  TEST_CASE("shard optimizer: where it cannot be, the cause and the fix are named") {
    const auto central = run_on(
        1, mnist("1") + kSharded + Words{"--strategy", "central-storage", "--devices", "cpu:0-1"});
    CHECK(central.exit_code == 2);
    CHECK(has(central.err, "--shard-optimizer is given, but --strategy central-storage keeps"));
    CHECK(has(central.err, "use --strategy mirrored or multi-worker"));
    const auto elastic = run_process(Words{kBuild + "/troupe", "run", "--workers", "2",
                                           "--min-workers", "1", "--no-prefix", "--"} +
                                         kVirtualNet + kSharded,
                                     {}, kLimit);
    CHECK(elastic.exit_code == 2);
    CHECK(has(elastic.err, "elastic (--min-workers), and --shard-optimizer is given"));
    const auto servers = run_process(
        Words{kBuild + "/troupe", "run", "--workers", "1", "--ps", "1", "--no-prefix", "--"} +
            mnist("1") + kSharded,
        {}, kLimit);
    CHECK(servers.exit_code == 2);
    CHECK(has(servers.err, "parameter servers keep the optimiser's state"));
  }
}

}  // namespace sharded_optimizer_test
