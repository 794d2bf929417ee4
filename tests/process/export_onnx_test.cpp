// Exports to ONNX through the real command line: of every example that predicts, by --mode export
// and by the exporter; and what cannot be exported is refused before step 1.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace fs = std::filesystem;
using nlohmann::json;
using troupe::testing::kBuild;
using troupe::testing::run_process;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

constexpr int kNothingHere = 77;  // check_onnx.py's exit code

troupe::testing::ProcessResult run(const Words& command, const TempDir& dir) {
  return run_process(command + Words{"--model-dir", dir / "model", "--batch-size", "8"}, {},
                     std::chrono::milliseconds(60'000));
}

/// Trains for a step and exports; returns the export's folder.
std::string exported(const Words& command, const TempDir& dir) {
  const auto trained = run(command + Words{"--max-steps", "1"}, dir);
  CAPTURE(trained.err);
  REQUIRE(trained.exit_code == 0);
  const auto result = run(command + Words{"--mode", "export", "--export-format", "onnx"}, dir);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return result.out.substr(0, result.out.find('\n'));
}

/// By Debian's python3-onnx, where it is here.
void check_by_onnx(const std::string& folder) {
  for (const std::string python : {"/usr/bin/python3", "python3"}) {
    const auto result =
        run_process({python, TROUPE_SOURCE_DIR "/tests/interop/check_onnx.py", "--checker", folder},
                    {}, std::chrono::milliseconds(30'000));
    if (result.exit_code == kNothingHere || result.exit_code == 127) continue;
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    std::cerr << result.out;
    return;
  }
  MESSAGE("skipped: no onnx.checker here (Debian: python3-onnx)");
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: each that predicts is exported to ONNX") {
    const std::string examples = kBuild + "/examples/";
    for (const Words& command :
         std::vector<Words>{{examples + "mnist", "--train-examples", "64"},
                            {examples + "linear_regression"},
                            {examples + "regression"},
                            {examples + "gan", "--width", "8", "--train-examples", "64"},
                            {examples + "embedding", "--users", "500", "--items", "100",
                             "--ratings", "400", "--eval-ratings", "40"},
                            {examples + "resnet", "--width", "4", "--train-examples", "64"}}) {
      CAPTURE(command.front());
      const TempDir dir;
      const std::string folder = exported(command, dir);
      for (const char* file : {"model.onnx", "1/model.onnx", "model.safetensors", "README.txt"}) {
        CHECK(fs::exists(fs::path(folder) / file));
      }
      check_by_onnx(folder);
    }
  }

  TEST_CASE("examples: the exporter onnx exports beside another") {
    const TempDir dir;
    const auto result =
        run({kBuild + "/examples/mnist", "--mode", "train-and-evaluate", "--exporter",
             "latest,onnx", "--train-examples", "64", "--max-steps", "2", "--json-summary"},
            dir);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const json exports =
        json::parse(result.out.substr(result.out.rfind("{\"evaluation\"")))["exports"];
    CHECK(fs::exists(fs::path(exports.at(0).get<std::string>()) / "model.pt"));
    CHECK(fs::exists(fs::path(exports.at(1).get<std::string>()) / "model.onnx"));
  }

  TEST_CASE("examples: lengths that an export cannot have are refused before step 1") {
    const Words train = {kBuild + "/examples/mnist",
                         "--mode",
                         "train-and-evaluate",
                         "--exporter",
                         "onnx",
                         "--max-steps",
                         "1",
                         "--export-lengths"};
    for (const auto& [lengths, message] : std::vector<std::pair<std::string, std::string>>{
             {"width", "write INPUT:DIMENSION=NAME"},
             {"picture:1=width", "name one of: input."},
             // A convolution of stride 1 and a fixed linear layer: other sizes have no meaning.
             {"input:3=width", "predict_step"}}) {
      const TempDir dir;
      const auto result = run(train + Words{lengths}, dir);
      CAPTURE(result.err);
      CHECK(result.exit_code == 2);
      CHECK(result.err.find(message) != std::string::npos);
      CHECK_FALSE(fs::exists(dir / "model"));
    }
  }
}
