// A plateau and averaged weights through the real command line: killed in the middle, a run ends
// with the files that an unharmed one ends with, and evaluations use the averages.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/caught.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace learning_test {

using nlohmann::json;
using troupe::testing::has;
using troupe::testing::hash_in;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::kMnist;
using troupe::testing::Process;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace fs = std::filesystem;

namespace {

/// 403 examples in batches of 50: nine steps an epoch, the last one short. Patience 1 and a metric
/// that grows: the rate drops at nearly every validation.
Words command(const TempDir& model_dir, int max_steps) {
  return kMnist + Words{"--mode",           "train_and_evaluate",
                        "--batch-size",     "50",
                        "--train-examples", "403",
                        "--max-steps",      std::to_string(max_steps),
                        "--model-dir",      model_dir.path().string(),
                        "--save-every",     "4",
                        "--eval-steps",     "4",
                        "--exporter",       "none",
                        "--log-every",      "1",
                        "--lr-schedule",    "plateau",
                        "--plateau",        "loss:1",
                        "--decay-factor",   "0.5",
                        "--warmup-steps",   "7",
                        "--ema-decay",      "0.95",
                        "--json-summary"};
}

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// "parameter_hash <64 digits>, equal on 2 replicas"
}  // namespace

TEST_SUITE("learning") {
  TEST_CASE("learning: a killed group with a plateau and averages ends as an unharmed one") {
    constexpr int kSteps = 120;
    const TempDir whole;
    const auto unharmed = run_on(2, command(whole, kSteps));
    INFO(unharmed.err);
    REQUIRE(unharmed.exit_code == 0);
    CHECK(has(unharmed.err, "the learning rate drops to"));
    CHECK(has(unharmed.err, "learning_rate = "));
    CHECK(has(unharmed.err, "evaluations use averaged weights"));

    const TempDir dir;
    {
      Process run(Words{kBuild + "/troupe", "run", "--workers", "2", "--no-prefix", "--"} +
                  command(dir, 100'000));
      REQUIRE(run.wait_for_output("model.ckpt-8 ", kLimit));
      run.signal(SIGKILL);
      CHECK(run.wait(kLimit).signal == SIGKILL);
    }
    const auto rest = run_on(2, command(dir, kSteps));
    INFO(rest.err);
    REQUIRE(rest.exit_code == 0);
    CHECK(has(rest.err, "resuming at step "));
    CHECK(hash_in(rest.err) == hash_in(unharmed.err));
    for (const char* file :
         {"averages.safetensors", "model.safetensors", "optimizers.safetensors"}) {
      CAPTURE(file);
      CHECK(content(dir / "model.ckpt-120" / file) == content(whole / "model.ckpt-120" / file));
    }
    CHECK(content(dir / "model.ckpt-120/averages.safetensors") !=
          content(dir / "model.ckpt-120/model.safetensors"));
    const auto facts = [](const TempDir& of) {
      return json::parse(content(of / "model.ckpt-120/manifest.json")).at("extras");
    };
    CHECK(facts(dir).at("plateau") == facts(whole).at("plateau"));
    CHECK(facts(dir).at("averages") == json{{"decay", 0.95}, {"updates", kSteps}});
  }

  TEST_CASE("learning: --mode evaluate uses the averages") {
    const TempDir dir;
    const auto trained = run_process(command(dir, 12), {}, kLimit);
    const json expected = summary(trained)["evaluation"];
    const auto run =
        run_process(kMnist + Words{"--mode", "evaluate", "--model-dir", dir.path().string(),
                                   "--batch-size", "50", "--eval-steps", "4", "--json-summary"},
                    {}, kLimit);
    CHECK(has(run.err, "the averaged weights of"));
    const json averaged = summary(run)["evaluation"];
    CHECK(averaged["global_step"] == 12);
    CHECK(averaged == expected);
    // Trained without averages the weights are the same, and their evaluation is another.
    const TempDir plain;
    Words without = command(plain, 12);
    for (auto& word : without) {
      if (word == "0.95") word = "0";
    }
    const auto raw = run_process(without, {}, kLimit);
    CHECK(hash_in(raw.err) == hash_in(trained.err));
    CHECK(summary(raw)["evaluation"]["loss"] != averaged["loss"]);
  }

  TEST_CASE("learning: flags that make no sense end the program") {
    const auto fails = [](const Words& flags) {
      const auto run = run_process(kMnist + Words{"--train-examples", "50"} + flags, {}, kLimit);
      CHECK(run.exit_code == 2);
      return run.err;
    };
    CHECK(has(fails({"--lr-schedule", "linear"}), "give constant, step, cosine or plateau"));
    CHECK(has(fails({"--lr-schedule", "step"}), "set --decay-steps"));
    CHECK(has(fails({"--ema-decay", "1"}), "below 1"));
    CHECK(
        has(fails({"--lr-schedule", "plateau", "--plateau", "acuracy:10"}), "name one of: loss, "));
  }
}

}  // namespace learning_test
