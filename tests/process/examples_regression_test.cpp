// The regression example: its training is evaluated and exported, its model predicts what was
// evaluated, and a bad table is refused with file and line.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "examples/regression/births.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

using nlohmann::json;
using troupe::testing::ProcessResult;
using troupe::testing::run_process;
using troupe::testing::TempDir;

namespace {

// Recorded 0.579; 0.543 is the noise's own. Other processors and libraries round differently.
constexpr double kRmseBound = 0.65;

const std::string kRegression = std::string(TROUPE_BINARY_DIR) + "/examples/regression";

ProcessResult run(std::vector<std::string> command, const TempDir& dir,
                  const std::vector<std::string>& flags) {
  command.insert(command.end(), {"--model-dir", (dir / "model").string()});
  command.insert(command.end(), flags.begin(), flags.end());
  ProcessResult result = run_process(command);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// What is to be predicted where the example generates its births.
std::vector<double> generated_weights() {
  std::vector<double> weights;
  for (const births::Birth& birth : births::generate(births::kEvalRows, /*seed=*/2))
    weights.push_back(birth.weight_pounds);
  return weights;
}

/// The predictions' distance from the weights; against one number: the standard deviation.
double rmse(const std::vector<double>& weights, const std::vector<double>& predictions) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += std::pow(weights[i] - predictions[predictions.size() == 1 ? 0 : i], 2);
  }
  return std::sqrt(sum / static_cast<double>(weights.size()));
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::vector<double> predictions_in(const std::string& out) {
  std::vector<double> predictions;
  for (const std::string& line : lines_of(out)) {
    predictions.push_back(json::parse(line).at("weight").at(0));
  }
  return predictions;
}

std::size_t entries(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), {}));
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: regression is trained, evaluated, exported and asked") {
    const TempDir dir;
    const auto trained = run({kRegression}, dir,
                             {"--mode", "train_and_evaluate", "--max-steps", "300", "--save-every",
                              "100", "--throttle-secs", "0", "--json-summary"});
    const json result = json::parse(lines_of(trained.out).back());
    const double reported = result["evaluation"]["rmse"];
    const std::vector<double> weights = generated_weights();
    CHECK(result["evaluation"]["global_step"] == 300);
    CHECK(reported < kRmseBound);
    CHECK(2 * reported < rmse(weights, {mean(weights)}));  // what knowing nothing costs

    // An evaluation and an export at each of three checkpoints.
    CHECK(entries(dir / "model/export/latest") == 3);
    const std::filesystem::path exported = result["exports"].at(0).get<std::string>();
    CHECK(exported.parent_path() == dir / "model/export/latest");
    CHECK(std::filesystem::file_size(exported / "model.pt") > 0);
    std::ifstream file(exported / "signature.json");
    const json signature = json::parse(file);
    std::vector<std::string> inputs;
    for (const json& input : signature["inputs"]) inputs.push_back(input["name"]);
    CHECK(inputs ==
          std::vector<std::string>{"is_male", "mother_age", "plurality", "gestation_weeks"});
    CHECK(signature["outputs"].at(0)["name"] == "weight");
    CHECK(signature["global_step"] == 300);

    const auto three = run({kRegression}, dir, {"--mode", "predict", "--predict-examples", "3"});
    CHECK(predictions_in(three.out).size() == 3);
    const auto all = predictions_in(run({kRegression}, dir, {"--mode", "predict"}).out);
    REQUIRE(all.size() == weights.size());
    CHECK(std::abs(rmse(weights, all) - reported) < 1e-5);
  }

  TEST_CASE("examples: regression is evaluated beside two workers") {
    const TempDir dir;
    const std::string tool = std::string(TROUPE_BINARY_DIR) + "/troupe";
    const auto trained =
        run({tool, "run", "--no-prefix", "--workers", "2", "--evaluator", "--", kRegression}, dir,
            {"--mode", "train_and_evaluate", "--max-steps", "300", "--start-delay-secs", "0",
             "--throttle-secs", "1", "--json-summary"});
    json evaluation;
    for (const std::string& line : lines_of(trained.out)) {
      const json object = json::parse(line);
      if (object.contains("evaluation")) evaluation = object["evaluation"];
    }
    CHECK(evaluation["global_step"] == 300);
    CHECK(evaluation["rmse"] < kRmseBound);
    CHECK(entries(dir.path()) == 1);
  }

  TEST_CASE("examples: regression refuses a bad table with file and line") {
    const TempDir dir;
    std::filesystem::create_directory(dir / "data");
    const std::string header = "weight_pounds,is_male,mother_age,plurality,gestation_weeks\n";
    std::ofstream(dir / "data/train.csv") << header << "7.25,1,28,1,39\nnan,1,28,1,39\n";
    std::ofstream(dir / "data/eval.csv") << header << "7.25,1,28,1,39\n";
    const auto result = run_process({kRegression, "--data-dir", (dir / "data").string(),
                                     "--model-dir", (dir / "model").string()});
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("error[data]: '" + (dir / "data/train.csv").string() +
                          "' line 3 has weight_pounds \"nan\"") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(dir / "model/checkpoint"));
  }
}
