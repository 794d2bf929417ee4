// An optimiser of one's own, and trained weights to start from, through the real command line.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace fs = std::filesystem;
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

Words muon(int max_steps, int batch_size = 24) {
  return {kBuild + "/examples/muon",
          "--json-summary",
          "--batch-size",
          std::to_string(batch_size),
          "--max-steps",
          std::to_string(max_steps),
          "--train-examples",
          "96",
          "--eval-steps",
          "2"};
}
Words in_directory(const fs::path& path) { return {"--model-dir", path.string()}; }
Words from(const fs::path& path) { return {"--init-from", path.string()}; }

std::string hash_of(const troupe::testing::ProcessResult& result) {
  return summary(result)["parameter_hash"];
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: muon resumes bit for bit, and is served as it trains on replicas") {
    const TempDir dir;
    const std::string whole = hash_of(run_on(1, muon(6)));
    (void)summary(run_on(1, muon(3) + in_directory(dir.path())));
    CHECK(hash_of(run_on(1, muon(6) + in_directory(dir.path()))) == whole);
    const Words servers{kBuild + "/troupe", "run", "--workers", "2", "--ps", "2",
                        "--no-prefix",      "--"};
    const auto served = run_process(
        servers + muon(4) + Words{"--strategy", "parameter-server", "--staleness-bound", "0"}, {},
        kLimit);
    CHECK(hash_of(served) == hash_of(run_on(1, muon(4) + Words{"--devices", "cpu:0-1"})));
  }

  TEST_CASE("examples: --init-from starts with trained weights, other settings, and step 0") {
    const TempDir source;
    const TempDir dir;
    const json trained = summary(run_on(1, muon(6) + in_directory(source.path())));
    const Words other{"--seed", "3"};
    // A rate of next to nothing leaves the weights nearly as they were.
    const Words still{"--learning-rate", "1e-9", "--adam-learning-rate", "1e-9"};
    const json warm = summary(
        run_on(2, muon(1, 16) + other + still + in_directory(dir.path()) + from(source.path())));
    CHECK(warm["global_step"] == 1);
    CHECK(warm["test"]["loss"].get<double>() ==
          doctest::Approx(trained["test"]["loss"].get<double>()).epsilon(1e-4));
    const auto resumed =
        run_on(1, muon(2, 16) + other + still + in_directory(dir.path()) + from(source.path()));
    CHECK(summary(resumed)["global_step"] == 2);
    CHECK(resumed.err.find("the warm start from " + source.path().string() + " is not used") !=
          std::string::npos);
    // Without --model-dir, from one checkpoint, and on servers.
    const auto checkpoint = source.path() / "model.ckpt-6";
    const double alone = summary(run_on(1, muon(1) + still + from(checkpoint)))["test"]["loss"];
    CHECK(alone == doctest::Approx(trained["test"]["loss"].get<double>()).epsilon(1e-4));
    const Words servers{kBuild + "/troupe", "run", "--workers", "2", "--ps", "1",
                        "--no-prefix",      "--"};
    const json served =
        summary(run_process(servers + muon(1) + still + from(checkpoint), {}, kLimit));
    CHECK(served["test"]["loss"].get<double>() == doctest::Approx(alone).epsilon(1e-4));
  }

  TEST_CASE("examples: what --init-from cannot take is refused by name, and nothing is trained") {
    const TempDir source;
    (void)summary(run_on(1, muon(1) + in_directory(source.path())));
    const auto refused = [&](const Words& words, int exit_code, const std::string& what) {
      const TempDir dir;
      const auto result = run_on(1, words + in_directory(dir.path()));
      CAPTURE(result.err);
      CHECK(result.exit_code == exit_code);
      CHECK(result.err.find(what) != std::string::npos);
      CHECK_FALSE(fs::exists(dir.path() / "model.ckpt-0"));
    };
    refused(muon(1) + from("/nowhere"), 1, "no model to start from in /nowhere");
    refused(muon(1) + from(source.path()) + Words{"--init-only", "conv"}, 2,
            "\"conv\" matches no parameter");
    refused(muon(1) + from(source.path()) + Words{"--init-only", "conv("}, 2,
            "is no regular expression");
    refused(muon(1) + Words{"--init-only", "conv.*"}, 2, "without --init-from");
    const Words other = {kBuild + "/examples/linear_regression", "--max-steps", "1"};
    refused(other + from(source.path()), 1, "has no weight, bias. Fix: ");
  }
}
