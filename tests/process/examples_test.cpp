// Every example runs, and gives the result that its README records.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

using nlohmann::json;
using troupe::testing::run_process;

namespace {

const std::string kExamples = std::string(TROUPE_BINARY_DIR) + "/examples/";

json run(const std::string& example, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {kExamples + example, "--json-summary"};
  command.insert(command.end(), flags.begin(), flags.end());
  const auto result = run_process(command);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: linear_regression finds the line") {
    const json summary = run("linear_regression", {"--epochs", "20"});
    CHECK(summary["test"]["absolute_error"] < 0.01);  // the noise's own is 0.008
    CHECK(summary["global_step"] == 320);
  }

  TEST_CASE("examples: mnist reads generated digits") {
    const json summary = run("mnist", {"--epochs", "3"});
    CHECK(summary["test"]["accuracy"] >= 0.97);
    CHECK(summary["test"]["examples"] == 2000);
    for (const char* key :
         {"strategy", "world_size", "replicas", "global_batch_size", "global_step", "epochs",
          "seconds", "examples_per_sec", "train", "validation", "test", "parameter_hash"}) {
      CAPTURE(key);
      CHECK(summary.contains(key));
    }
  }

  TEST_CASE("examples: mnist takes the golden steps") {
    // tests/golden/make_losses.sh writes them. Another BLAS or processor rounds differently, by
    // less than this.
    const troupe::testing::TempDir dir;
    const std::string file = (dir / "metrics.jsonl").string();
    (void)run("mnist", {"--batch-size", "100", "--train-examples", "1003", "--max-steps", "22",
                        "--log-every", "1", "--metrics-file", file});
    std::ifstream golden(std::string(TROUPE_SOURCE_DIR) + "/tests/golden/mnist_losses.txt");
    std::ifstream metrics(file);
    std::int64_t step = 0;
    double expected = 0;
    int compared = 0;
    for (std::string line; golden >> step >> expected && compared < 20; ++compared) {
      json now;
      do {
        REQUIRE(std::getline(metrics, line));
        now = json::parse(line);
      } while (!now.contains("loss"));
      CAPTURE(step);
      CHECK(now["step"] == step);
      CHECK(std::abs(now["loss"].get<double>() - expected) <= 1e-4 * expected);
    }
    CHECK(compared == 20);
  }
}
