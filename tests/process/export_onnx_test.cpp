// Exports to ONNX through the real command line, by the exporter; what cannot be exported is
// refused before step 1. Every example by --mode export: export_predict_test.cpp.
#include <filesystem>
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

troupe::testing::ProcessResult run(const Words& command, const TempDir& dir) {
  return run_process(command + Words{"--model-dir", dir / "model", "--batch-size", "8"}, {},
                     std::chrono::milliseconds(60'000));
}

}  // namespace

TEST_SUITE("examples") {
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
