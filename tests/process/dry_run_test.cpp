// --dry-run and --summary through the real command line: what is wrong is found before training, by
// the hook's name; what is right ends with 0; and nothing is left behind, whatever it was.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace dry_run_test {

using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::ProcessResult;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace fs = std::filesystem;

namespace {

const Words kLine = {kBuild + "/examples/linear_regression", "--epochs", "2"};
const Words kWrong = {kBuild + "/tests/process/trainings", "wrong_hook", "--dry-run", "--wrong"};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Every file below, with its bytes.
std::map<std::string, std::string> files_in(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().string()].assign(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

ProcessResult good(const ProcessResult& result) {
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(contains(result.err, "dry run: all of this holds"));
  return result;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("dry run: every hook is called, the group meets, and no folder is made") {
    for (const int workers : {1, 2}) {
      const TempDir dir;
      const std::string model_dir = (dir / "run").string();
      const auto result = good(
          run_on(workers, kLine + Words{"--dry-run", "--model-dir", model_dir, "--metrics-file",
                                        (dir / "losses.jsonl").string(), "--profile", "2"}));
      for (const char* line :
           {"dry run: create_model: 3 values to train", "1000 training examples, 16 steps of 64",
            "would start at step 0", "dry run: train_step: loss = ", "dry run: test_step: loss = ",
            "dry run: predict_step: y [64, 1]", "dry run: room for 6 checkpoints of "}) {
        CAPTURE(line);
        CHECK(contains(result.err, line));
      }
      CHECK(fs::is_empty(dir.path()));
    }
  }

  TEST_CASE("dry run: servers, and a model that is exported") {
    const Words tool = {kBuild + "/troupe", "run", "--workers", "2", "--ps", "1", "--"};
    good(run_process(tool + kLine + Words{"--dry-run"}, {}, kLimit));
    const TempDir dir;
    good(run_on(1, kLine + Words{"--dry-run", "--mode", "train_and_evaluate", "--model-dir",
                                 (dir / "run").string(), "--exporter", "latest,best"}));
    CHECK(fs::is_empty(dir.path()));
  }

  TEST_CASE("dry run: a run that exists is resumed in memory, and keeps its bytes") {
    const TempDir dir;
    const Words program = kLine + Words{"--model-dir", dir.path().string()};
    REQUIRE(run_on(1, program + Words{"--max-steps", "7"}).exit_code == 0);
    const auto before = files_in(dir.path());
    REQUIRE_FALSE(before.empty());
    const auto result = good(run_on(1, program + Words{"--dry-run"}));
    CHECK(contains(result.err, "training would resume at step 7, step 7 of epoch 1"));
    CHECK(files_in(dir.path()) == before);
    const auto never = run_on(1, program + Words{"--dry-run", "--resume", "never"});
    CHECK(never.exit_code == 2);
    CHECK(contains(never.err, "--resume never was given"));
    CHECK(files_in(dir.path()) == before);
  }

  TEST_CASE("dry run: a wrong hook is named, with the error that training would meet") {
    struct Wrong {
      const char* what;
      int exit_code;
      const char* message;
    };
    for (const Wrong& wrong :
         {Wrong{"shapes", 1, "error[failed]: train_step failed after 0 steps"},
          Wrong{"local-mean", 2, "train_step gave apply_gradients"},
          Wrong{"validation", 1, "error[failed]: validation_step failed after 0 steps"},
          Wrong{"test", 1, "dry run: test_step failed, at step 1; the error follows"},
          Wrong{"predict", 1, "error[failed]: predict_step failed after 1 steps"}}) {
      CAPTURE(wrong.what);
      const auto result = run_on(1, kWrong + Words{wrong.what});
      CAPTURE(result.err);
      CHECK(result.exit_code == wrong.exit_code);
      CHECK(contains(result.err, wrong.message));
      CHECK_FALSE(contains(result.err, "all of this holds"));
    }
    const auto group = run_on(2, kWrong + Words{"validation"});
    CHECK(group.exit_code == 1);
    CHECK(contains(group.err, "validation_step failed"));
    CHECK(contains(good(run_on(1, kWrong + Words{"no-predict"})).err,
                   "predict_step: predict_step is not written."));
  }

  TEST_CASE("dry run: metrics that nothing has, folders and disks that will not do") {
    const TempDir dir;
    const std::string model_dir = (dir / "run").string();
    const auto check = [&](int exit_code, const std::string& message, const Words& more) {
      CAPTURE(message);
      const auto result = run_on(1, Words{kLine[0], "--dry-run"} + more);
      CAPTURE(result.err);
      CHECK(result.exit_code == exit_code);
      CHECK(contains(result.err, message));
      CHECK_FALSE(fs::exists(model_dir));
    };
    const Words evaluated = {"--mode", "train_and_evaluate", "--model-dir", model_dir};
    check(2, "--early-stopping los:100 names the metric \"los\"",
          evaluated + Words{"--early-stopping", "los:100"});
    check(2, "exports would fail", evaluated + Words{"--exporter", "best", "--best", "acc"});
    // By the loop's validations, of which this program has none.
    check(2, "--best is given, and there is no validation to go by",
          {"--model-dir", model_dir, "--best", "loss"});
    check(2, "--early-stopping is given, and there is no validation", {"--early-stopping", "a:5"});
    check(2, "--dry-run is given, but --mode predict does not train",
          {"--mode", "predict", "--model-dir", model_dir});
    std::ofstream(dir / "file") << "no folder";
    check(3, "is no directory", {"--model-dir", (dir / "file" / "run").string()});
    // More than 10^16 of them, whatever their size.
    check(3, "lower --keep-checkpoint-max",
          {"--model-dir", model_dir, "--epochs", "1000000000000000", "--save-every", "1",
           "--keep-checkpoint-max", "0"});
  }

  TEST_CASE("summary: the table is printed before training, once, and fits") {
    const auto result = run_on(2, kLine + Words{"--summary", "--max-steps", "1", "--json-summary"});
    REQUIRE(result.exit_code == 0);
    CHECK(contains(result.out,
                   "parameter  shape   values  type     trained by\n"
                   "weight     [1, 2]       2  float32  optimizer\n"
                   "bias       [1]          1  float32  optimizer\n"
                   "3 values trained, 0 frozen, 0 in buffers; 12 bytes\n"
                   "optimizer: SGD of 2 parameters, lr = 0.03, momentum = 0, dampening = 0, "
                   "weight_decay = 0, nesterov = false\n{"));
    CHECK(result.out.find("parameter  shape") == result.out.rfind("parameter  shape"));
    CHECK(contains(good(run_on(1, kLine + Words{"--summary", "--dry-run"})).out, "weight  "));
  }
}

}  // namespace dry_run_test
