// The examples of images and tables: each learns through the real command line, and a run that is
// continued ends with the weights of one that never stopped.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

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

Words example(const std::string& name) { return {kBuild + "/examples/" + name, "--json-summary"}; }

Words small_gan() {
  return example("gan") + Words{"--width",      "8",  "--noise-size",     "16",
                                "--batch-size", "32", "--train-examples", "1000"};
}
Words small_embedding() {
  return example("embedding") + Words{"--users",      "500",   "--items",         "100",
                                      "--ratings",    "40000", "--eval-ratings",  "4000",
                                      "--batch-size", "256",   "--learning-rate", "0.2"};
}
Words small_resnet() { return example("resnet") + Words{"--width", "4", "--batch-size", "32"}; }

Words small_transformer() {
  return example("transformer") + Words{"--width",         "32",   "--blocks",     "1",
                                        "--lines",         "2000", "--batch-size", "24",
                                        "--learning-rate", "0.005"};
}

Words in_steps(int max_steps, const TempDir& model_dir) {
  return {"--max-steps", std::to_string(max_steps), "--model-dir", model_dir.path().string()};
}

/// Whether a run of `steps` that was continued halfway ends as one that was not.
void check_resumed_equals_uninterrupted(const Words& command, int steps) {
  const TempDir whole;
  const TempDir halves;
  const json expected = summary(run_on(1, command + in_steps(steps, whole)));
  const json halfway = summary(run_on(1, command + in_steps(steps / 2, halves)));
  const json resumed = summary(run_on(1, command + in_steps(steps, halves)));
  CHECK(resumed["global_step"] == steps);
  CHECK(resumed["parameter_hash"] == expected["parameter_hash"]);
  CHECK(halfway["parameter_hash"] != expected["parameter_hash"]);  // the rest did something
}

/// Width and height of a PNG file, from its header.
std::vector<int> png_size(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(24, '\0');
  file.read(head.data(), 24);
  REQUIRE(head.substr(1, 3) == "PNG");
  std::vector<int> sizes;
  for (const std::size_t at : {16, 20}) {
    int value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = value * 256 + static_cast<unsigned char>(head[at + i]);
    sizes.push_back(value);
  }
  return sizes;
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: gan draws, and what it draws comes closer to digits") {
    const TempDir dir;
    const json untrained = summary(run_on(
        1, small_gan() + Words{"--max-steps", "1", "--samples-dir", (dir / "one").string()}));
    const json trained = summary(
        run_on(1, small_gan() + Words{"--epochs", "3", "--samples-dir", (dir / "many").string()}));
    CHECK(2 * trained["test"]["ink_gap"].get<double>() < untrained["test"]["ink_gap"]);
    for (const char* loss : {"generator", "discriminator"}) CHECK(trained["test"].contains(loss));
    CHECK(names_in(dir / "many") ==
          std::vector<std::string>{"step-32.png", "step-64.png", "step-96.png"});
    CHECK(png_size(dir / "many/step-32.png") == std::vector<int>{256, 256});
    CHECK(content(dir / "many/step-64.png") != content(dir / "many/step-96.png"));
  }

  TEST_CASE("examples: gan continues bit for bit") {
    check_resumed_equals_uninterrupted(small_gan(), 12);
  }

  TEST_CASE("examples: gan writes samples at each evaluation, predicts and exports") {
    const TempDir dir;
    const Words directory{"--model-dir", dir.path().string()};
    (void)summary(
        run_on(1, small_gan() + directory +
                      Words{"--mode", "train_and_evaluate", "--max-steps", "8", "--save-every", "4",
                            "--throttle-secs", "0", "--eval-steps", "2"}));
    CHECK(names_in(dir / "samples") == std::vector<std::string>{"step-4.png", "step-8.png"});
    const auto predicted =
        run_process(small_gan() + directory + Words{"--mode", "predict", "--predict-examples", "1"},
                    {}, kLimit);
    const json picture = summary(predicted)["picture"];
    CHECK(picture.at(0).size() == 28);
    CHECK(picture.at(0).at(0).size() == 28);
    const auto exported =
        run_process(small_gan() + directory + Words{"--mode", "export"}, {}, kLimit);
    CAPTURE(exported.err);
    CHECK(exported.exit_code == 0);
  }

  TEST_CASE("examples: gan on two workers has one set of weights, and one writes pictures") {
    const TempDir dir;
    // The workers compare their hashes at the end; different weights are an error.
    const json result = summary(
        run_on(2, small_gan() + Words{"--epochs", "1", "--samples-dir", dir.path().string()}));
    CHECK(result["world_size"] == 2);
    CHECK(names_in(dir.path()) == std::vector<std::string>{"step-32.png"});
  }

  TEST_CASE("examples: embedding foresees ratings better than biases do") {
    const json biases = summary(run_on(1, small_embedding() + Words{"--dimension", "0"}));
    const json learnt = summary(run_on(1, small_embedding() + Words{"--epochs", "3"}));
    CHECK(biases["test"]["rmse"] < 0.85);  // 0.95 is the ratings' own deviation
    CHECK(learnt["test"]["rmse"].get<double>() < 0.8 * biases["test"]["rmse"].get<double>());
    CHECK(learnt["test"]["pairs_in_order"] > biases["test"]["pairs_in_order"]);
  }

  TEST_CASE("examples: embedding learns the same with sparse and with dense gradients") {
    // On one device gradients are sparse, on two workers or replicas they are summed as dense ones.
    const Words few = small_embedding() + Words{"--max-steps", "60"};
    const double alone = summary(run_on(1, few))["test"]["rmse"];
    const double workers = summary(run_on(2, few))["test"]["rmse"];
    const double replicas = summary(run_on(1, few + Words{"--devices", "cpu:0-1"}))["test"]["rmse"];
    CHECK(std::abs(workers - alone) < 1e-4);
    CHECK(std::abs(replicas - alone) < 1e-4);
  }

  TEST_CASE("examples: embedding refuses what sparse gradients cannot do") {
    const auto result = run_process(small_embedding() + Words{"--weight-decay", "0.1"}, {}, kLimit);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("--weight-decay") != std::string::npos);
  }

  TEST_CASE("examples: transformer takes the same steps on every strategy") {
    const Words few = small_transformer() + Words{"--max-steps", "12"};
    const json alone = summary(run_on(1, few));
    CHECK(alone["train"]["loss/weight"] > 5000);  // characters, of fewer lines
    CHECK(alone["train"]["examples"] == 12 * 24);
    const Words servers{"--strategy", "parameter-server", "--staleness-bound", "0"};
    const auto check = [&](const json& other, const std::vector<const char*>& reports) {
      for (const char* of : reports) {
        const double expected = alone[of]["loss"];
        CHECK(std::abs(other[of]["loss"].get<double>() - expected) < 1e-6 * expected);
        CHECK(other[of]["loss/weight"] == alone[of]["loss/weight"]);
      }
    };
    const std::vector<const char*> both{"train", "validation"};
    check(summary(run_on(2, few + Words{"--loader-threads", "3"})), both);
    check(summary(run_on(3, few)), both);
    check(summary(run_on(1, few + Words{"--devices", "cpu:0-1"})), both);
    // A worker beside servers reports its own share of the training.
    const Words served =
        Words{kBuild + "/troupe", "run", "--workers", "2", "--ps", "1", "--no-prefix", "--"};
    check(summary(run_process(served + few + servers, {}, kLimit)), {"validation"});
  }

  TEST_CASE("examples: transformer learns, continues bit for bit, and in no other order") {
    const json learnt = summary(run_on(1, small_transformer() + Words{"--max-steps", "40"}));
    CHECK(learnt["validation"]["loss"] < 2.5);  // 4.85 is chance
    check_resumed_equals_uninterrupted(small_transformer(), 10);
    const TempDir dir;
    (void)summary(run_on(1, small_transformer() + in_steps(5, dir)));
    const auto other =
        run_process(small_transformer() + in_steps(9, dir) + Words{"--no-bucketed"}, {}, kLimit);
    CHECK(other.exit_code == 2);
    CHECK(other.err.find("sampler bucketed") != std::string::npos);
    CHECK(other.err.find("now it is shuffled") != std::string::npos);
  }

  TEST_CASE("examples: resnet learns shapes") {
    const TempDir dir;
    const std::string file = (dir / "metrics.jsonl").string();
    const json result =
        summary(run_process(small_resnet() + Words{"--train-examples", "1280", "--epochs", "2",
                                                   "--log-every", "1", "--metrics-file", file},
                            {}, std::chrono::milliseconds(100'000)));
    CHECK(result["test"]["accuracy"] > 0.17);  // chance is 0.1, and 0.007 its deviation
    CHECK(result["test"]["top_3"] > 0.42);     // chance is 0.3
    const auto losses = troupe::testing::losses_in(file);
    REQUIRE(losses.size() == 80);
    const auto mean_of_ten = [](auto from) { return std::accumulate(from, from + 10, 0.0) / 10; };
    CHECK(mean_of_ten(losses.end() - 10) < 0.95 * mean_of_ten(losses.begin()));
  }

  TEST_CASE("examples: resnet continues bit for bit, the random crops too") {
    check_resumed_equals_uninterrupted(small_resnet(), 10);
  }

  TEST_CASE("examples: resnet reads the files of CIFAR-10 and refuses bad ones") {
    const TempDir dir;
    for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                             "data_batch_5", "test_batch"}) {
      std::string bytes;
      for (int i = 0; i < 1200; ++i) {
        bytes += static_cast<char>(i % 10);
        bytes += std::string(3072, static_cast<char>(i % 10 * 25));
      }
      std::ofstream(dir / (std::string(name) + ".bin"), std::ios::binary) << bytes;
    }
    const Words command =
        small_resnet() + Words{"--data-dir", dir.path().string(), "--max-steps", "1"};
    const json result = summary(run_on(1, command));
    CHECK(result["test"]["examples"] == 1200);
    CHECK(result["validation"]["examples"] == 5000);
    std::ofstream(dir / "data_batch_3.bin", std::ios::binary | std::ios::app) << "x";
    const auto refused = run_process(command, {}, kLimit);
    CHECK(refused.exit_code == 1);
    CHECK(refused.err.find("data_batch_3.bin' is truncated: it ends in record 1200") !=
          std::string::npos);
  }
}
