// train_and_evaluate through the real command line: alone, under the launcher, and as three
// processes with a TF_CONFIG each.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace train_and_evaluate_test {

using nlohmann::json;
using troupe::text;
using troupe::testing::free_port;
using troupe::testing::hash_in;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::kMnist;
using troupe::testing::Process;
using troupe::testing::ProcessOptions;
using troupe::testing::ProcessResult;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace fs = std::filesystem;

namespace {

Words command(const TempDir& model_dir, int max_steps, int save_every) {
  return kMnist + Words{"--mode",
                        "train_and_evaluate",
                        "--batch-size",
                        "100",
                        "--train-examples",
                        "1003",
                        "--max-steps",
                        std::to_string(max_steps),
                        "--model-dir",
                        model_dir.path().string(),
                        "--save-every",
                        std::to_string(save_every),
                        "--throttle-secs",
                        "0",
                        "--start-delay-secs",
                        "0",
                        "--eval-steps",
                        "4",
                        "--json-summary"};
}

Words with_evaluator(const Words& program) {
  return Words{kBuild + "/troupe", "run", "--workers", "2", "--evaluator", "--"} + program;
}

int count(const std::string& where, const std::string& what) {
  int found = 0;
  for (auto at = where.find(what); at != std::string::npos; at = where.find(what, at + 1)) ++found;
  return found;
}

/// Names in a directory that start with `prefix`, sorted.
std::vector<std::string> names_in(const fs::path& directory, const std::string& prefix) {
  std::vector<std::string> names;
  if (!fs::exists(directory)) return names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.rfind(prefix, 0) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The hash that a run printed: "parameter_hash <64 digits>, equal on 2 replicas".
}  // namespace

TEST_SUITE("train_and_evaluate") {
  TEST_CASE("train_and_evaluate: alone, it evaluates every checkpoint but the first and exports") {
    const TempDir dir;
    const auto run = run_process(command(dir, 22, 10), {}, kLimit);
    const json last = summary(run);
    CHECK(last["evaluation"]["global_step"] == 22);
    CHECK(count(run.err, "evaluating ") == 3);  // 10, 20, 22
    CHECK(names_in(dir.path(), "model.ckpt-") ==
          std::vector<std::string>{"model.ckpt-0", "model.ckpt-10", "model.ckpt-20",
                                   "model.ckpt-22"});
    CHECK(names_in(dir.path() / "export/latest", "").size() == 3);
    const auto again = run_process(command(dir, 22, 10), {}, kLimit);
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("nothing to train") != std::string::npos);
    CHECK(count(again.err, "evaluating ") == 0);
  }

  TEST_CASE("train_and_evaluate: two workers and an evaluator under troupe run") {
    const TempDir dir;
    const auto run = run_process(with_evaluator(command(dir, 60, 10)), {}, kLimit);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(names_in(dir.path(), "model.ckpt-").size() == 5);  // retention
    CHECK(names_in(dir.path(), "model.ckpt-60").size() == 1);
    CHECK(run.err.find("equal on 2 replicas") != std::string::npos);
    CHECK(run.err.find("[evaluator/0]") != std::string::npos);
    CHECK(run.out.find("\"global_step\":60") != std::string::npos);
    CHECK(names_in(dir.path() / "export/latest", "").size() >= 1);
    CHECK(run.err.find("the chief evaluates") == std::string::npos);
  }

  TEST_CASE(
      "train_and_evaluate: without an evaluator the workers evaluate each checkpoint together") {
    // As one process does: the same evaluations, to the last digit that is shown, and the same
    // ends.
    const TempDir alone;
    const TempDir dir;
    const Words watched = {"--throttle-secs", "0",      "--exporter",
                           "best,latest",     "--best", "accuracy"};
    const auto of_one = run_process(command(alone, 30, 10) + watched, {}, kLimit);
    const auto of_two = run_on(2, command(dir, 30, 10) + watched);
    INFO(of_two.err);
    CHECK(summary(of_two)["evaluation"]["global_step"] == 30);
    const auto evaluations = [](const std::string& log) {
      std::vector<std::string> lines;
      for (std::size_t at = log.find("I evaluation ("); at != std::string::npos;
           at = log.find("I evaluation (", at + 1)) {
        const std::size_t begin = log.find("): ", at) + 3;
        lines.push_back(log.substr(begin, log.find('\n', begin) - begin));
      }
      return lines;
    };
    // worker/0 stands before the words of a group's log.
    std::string log = of_two.err;
    for (std::size_t at = log.find("worker/0 "); at != std::string::npos;
         at = log.find("worker/0 "))
      log.erase(at, 9);
    CHECK(evaluations(log).size() == 3);
    CHECK(evaluations(log) == evaluations(of_one.err));
    CHECK(count(log, "evaluation (by all workers): ") == 3);
    for (const char* const exporter : {"export/best", "export/latest"}) {
      CHECK(names_in(dir.path() / exporter, "1").size() ==
            names_in(alone.path() / exporter, "1").size());
    }
    // The weights are those of a run that evaluates nothing.
    const TempDir plain;
    CHECK(hash_in(run_on(2, command(plain, 30, 10) + Words{"--throttle-secs", "10000"}).err) ==
          hash_in(of_two.err));
  }

  TEST_CASE("train_and_evaluate: workers that evaluate together stop by what they find") {
    const TempDir dir;
    const auto run = run_on(2, command(dir, 200, 10) + Words{"--throttle-secs", "0",
                                                             "--early-stopping", "accuracy=0.1"});
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.err.find("model.ckpt-200") == std::string::npos);
    CHECK(names_in(dir.path(), "model.ckpt-200").empty());
  }

  TEST_CASE("train_and_evaluate: chief, worker and evaluator, a TF_CONFIG each, all exit 0") {
    const TempDir dir;
    const json cluster = {{"chief", {text("127.0.0.1:", free_port())}},
                          {"worker", {text("127.0.0.1:", free_port())}}};
    const auto start = [&](const char* type) {
      ProcessOptions options;
      options.set["TF_CONFIG"] =
          json{{"cluster", cluster}, {"task", {{"type", type}, {"index", 0}}}}.dump();
      return Process(command(dir, 40, 10), options);
    };
    Process evaluator = start("evaluator");
    Process chief = start("chief");
    Process worker = start("worker");
    const auto chief_end = chief.wait(kLimit);
    CHECK(worker.wait(kLimit).exit_code == 0);
    const auto evaluated = evaluator.wait(kLimit);
    INFO(chief_end.err, evaluated.err);
    CHECK(chief_end.exit_code == 0);
    CHECK(evaluated.exit_code == 0);
    CHECK(evaluated.out.find("\"global_step\":40") != std::string::npos);
    CHECK(count(chief_end.err, "evaluating ") == 0);
    CHECK(names_in(dir.path() / "eval", "events").size() == 1);
    CHECK(names_in(dir.path() / "export/latest", "").size() >= 1);
  }

  TEST_CASE("train_and_evaluate: a killed group goes on, its weights those of an unharmed one") {
    const TempDir unharmed;
    const std::string expected =
        hash_in(run_process(with_evaluator(command(unharmed, 60, 10)), {}, kLimit).err);
    const TempDir dir;
    {
      Process run(with_evaluator(command(dir, 100'000, 10)));
      REQUIRE(run.wait_for_output("model.ckpt-30 ", kLimit));
      run.signal(SIGKILL);
      CHECK(run.wait(kLimit).signal == SIGKILL);
    }
    // Take away what was saved beyond the end of the run to come.
    for (const auto& name : names_in(dir.path(), "model.ckpt-")) {
      REQUIRE(std::stoi(name.substr(11)) < 60);
    }
    const auto rest = run_process(with_evaluator(command(dir, 60, 10)), {}, kLimit);
    INFO(rest.err);
    CHECK(rest.exit_code == 0);
    CHECK(rest.err.find("resuming at step ") != std::string::npos);
    CHECK(hash_in(rest.err) == expected);
  }

  TEST_CASE("train_and_evaluate: SIGTERM saves, exits 143, and the next start goes on") {
    const TempDir dir;
    Process run(with_evaluator(command(dir, 100'000, 10)));
    REQUIRE(run.wait_for_output("model.ckpt-10 ", kLimit));
    run.signal(SIGTERM);
    const auto stopped = run.wait(kLimit);
    CHECK(stopped.exit_code == 143);
    CHECK(stopped.err.find("error[stopped]") != std::string::npos);
    CHECK_FALSE(fs::exists(dir.path() / "finished.json"));
  }

  TEST_CASE("train_and_evaluate: early stopping ends the workers and the evaluator") {
    const TempDir dir;
    const auto run = run_process(
        with_evaluator(command(dir, 100'000, 5) + Words{"--early-stopping", "accuracy=0.05"}), {},
        kLimit);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.err.find("training ends at step") != std::string::npos);
    CHECK(run.err.find("accuracy") != std::string::npos);
    CHECK(fs::exists(dir.path() / "finished.json"));
  }

  TEST_CASE("train_and_evaluate: SIGTERM alone saves and ends without another evaluation") {
    const TempDir dir;
    Process run(command(dir, 100'000, 1'000'000));
    REQUIRE(run.wait_for_output("step = 100", kLimit));
    run.signal(SIGTERM);
    const auto stopped = run.wait(kLimit);
    CHECK(stopped.exit_code == 143);
    CHECK(count(stopped.err, "evaluating ") == 0);
    CHECK(names_in(dir.path(), "model.ckpt-").size() == 2);
  }

  TEST_CASE("train_and_evaluate: killed before the last evaluation, it is made up for") {
    const TempDir dir;
    REQUIRE(summary(run_process(command(dir, 12, 10), {}, kLimit))["evaluation"]["global_step"] ==
            12);
    fs::remove(dir.path() / "finished.json");  // as if it had been killed before it was written
    fs::remove_all(dir.path() / "eval");
    const auto again = run_process(command(dir, 12, 10), {}, kLimit);
    CHECK(summary(again)["evaluation"]["global_step"] == 12);
    CHECK(count(run_process(command(dir, 12, 10), {}, kLimit).err, "evaluating ") == 0);
  }

  TEST_CASE("train_and_evaluate: killed between the last evaluation and its export, once more") {
    for (const int workers : {1, 2}) {
      CAPTURE(workers);
      const TempDir dir;
      const auto last_is_evaluated = [&] {
        std::ifstream in(dir / "eval/summaries.jsonl");
        const std::string lines{std::istreambuf_iterator<char>(in), {}};
        return lines.find("\"step\":12") != std::string::npos;
      };
      const Words program = command(dir, 12, 10) + Words{"--exporter", "latest,final,best"};
      const Words group = {kBuild + "/troupe", "run", "--workers", "2", "--no-prefix", "--"};
      {
        Process run(workers == 1 ? program : group + program);
        const auto deadline = troupe::Deadline::in(kLimit);
        while (!last_is_evaluated() && !deadline.expired()) {
        }
        run.signal(SIGKILL);
        (void)run.wait(kLimit);
      }
      const auto again = run_on(workers, program);
      INFO(again.err);
      CHECK(again.exit_code == 0);
      CHECK(names_in(dir / "export/latest", "1").size() == 2);
      CHECK(names_in(dir / "export/final", "1").size() == 1);
      CHECK(names_in(dir / "export/best", "1").size() >= 1);
      const auto third = run_on(workers, program);
      CHECK(third.exit_code == 0);
      CHECK(count(third.err, "evaluating ") == 0);
    }
  }

  TEST_CASE("train_and_evaluate: an export that fails is named at the end, and made good") {
    const TempDir dir;
    std::ofstream(dir / "export") << "in the way";
    const auto run = run_process(command(dir, 22, 10), {}, kLimit);
    INFO(run.err);
    CHECK(run.exit_code == 1);
    CHECK(run.err.find("error[export]: exports are missing") != std::string::npos);
    CHECK(run.err.find("'latest' at step 22") != std::string::npos);
    CHECK(run.err.find("model.ckpt-22 ") != std::string::npos);
    CHECK(run.out.find("\"global_step\":22") != std::string::npos);
    fs::remove(dir / "export");
    const auto again = run_process(command(dir, 22, 10), {}, kLimit);
    CHECK(again.exit_code == 0);
    CHECK(names_in(dir / "export/latest", "").size() == 1);
  }

  TEST_CASE("train_and_evaluate: an unknown metric to choose or stop by is known at the start") {
    for (const Words& by : {Words{"--exporter", "best", "--best", "acuracy"},
                            Words{"--early-stopping", "acuracy:5"}}) {
      const TempDir dir;
      fs::remove(dir.path());
      const auto run = run_process(command(dir, 12, 10) + by, {}, kLimit);
      INFO(run.err);
      CHECK(run.exit_code == 2);
      CHECK(run.err.find("acuracy") != std::string::npos);
      CHECK(count(run.err, "accuracy") > 0);  // what there is
      CHECK_FALSE(fs::exists(dir.path()));
    }
  }

  TEST_CASE("train: by the loop's validations training ends, and the best checkpoint stays") {
    for (const int workers : {1, 2}) {
      CAPTURE(workers);
      const TempDir dir;
      const Words model_dir = {"--model-dir", dir.path().string()};
      // The first epoch, of eleven steps, is the worst, which is the best that is asked for here.
      const auto run = run_on(
          workers, kMnist + model_dir +
                       Words{"--epochs", "9", "--batch-size", "100", "--train-examples", "1003",
                             "--keep-checkpoint-max", "1", "--best", "accuracy:min",
                             "--early-stopping", "loss:1000,accuracy:min:22", "--json-summary"});
      INFO(run.err);
      CHECK(summary(run)["global_step"] == 33);
      CHECK(run.err.find("accuracy has not decreased for 22 steps") != std::string::npos);
      CHECK(count(run.err, " is the best so far: accuracy = ") == 1);
      CHECK(names_in(dir.path(), "model.ckpt-") ==
            std::vector<std::string>{"model.ckpt-11", "model.ckpt-33"});
      const auto evaluated =
          run_process(kMnist + model_dir +
                          Words{"--mode", "evaluate", "--checkpoint", "best", "--json-summary"},
                      {}, kLimit);
      CHECK(summary(evaluated)["evaluation"]["global_step"] == 11);
      const std::string best = (dir / "best").string();
      const auto warm =
          run_process(kMnist + Words{"--init-from", best, "--max-steps", "1"}, {}, kLimit);
      CHECK(warm.err.find("tensors from " + best) != std::string::npos);
    }
    const TempDir none;
    const auto refused = run_process(
        kMnist + Words{"--mode", "evaluate", "--checkpoint", (none / "best").string()}, {}, kLimit);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("is known to be the best") != std::string::npos);
  }

  TEST_CASE("modes: a model directory that does not exist is named, and not made") {
    const TempDir dir;
    const std::string mistyped = (dir / "rum1").string();
    for (const char* mode : {"evaluate", "predict", "export"}) {
      CAPTURE(mode);
      const auto run =
          run_process(kMnist + Words{"--mode", mode, "--model-dir", mistyped}, {}, kLimit);
      CHECK(run.exit_code == 2);
      CHECK(run.err.find(mistyped) != std::string::npos);
      CHECK_FALSE(fs::exists(mistyped));
    }
  }

  TEST_CASE("modes: a damaged newest checkpoint is named, and the one before it is used") {
    const TempDir dir;
    REQUIRE(run_process(command(dir, 22, 10), {}, kLimit).exit_code == 0);
    const fs::path newest = dir.path() / "model.ckpt-22/model.safetensors";
    const Words evaluate =
        kMnist + Words{"--mode",           "evaluate", "--model-dir",   dir.path().string(),
                       "--train-examples", "1003",     "--json-summary"};
    SUBCASE("truncated") { fs::resize_file(newest, 100); }
    SUBCASE("a flipped bit") {
      std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(5000);
      const int byte = file.get();
      file.seekp(5000);
      file.put(static_cast<char>(byte ^ 1));
    }
    const auto run = run_process(evaluate, {}, kLimit);
    CHECK(summary(run)["evaluation"]["global_step"] == 20);
    CHECK(run.err.find("model.ckpt-22") != std::string::npos);
  }

  TEST_CASE("modes: output that cannot be written is an error") {
    const TempDir dir;
    REQUIRE(run_process(command(dir, 5, 10), {}, kLimit).exit_code == 0);
    const auto run =
        run_process({"/bin/sh", "-c",
                     kBuild + "/examples/mnist --mode predict --predict-examples 3 --model-dir " +
                         dir.path().string() + " > /dev/full"},
                    {}, kLimit);
    CHECK(run.exit_code == 3);
    CHECK(run.err.find("standard output cannot be written") != std::string::npos);
  }

  TEST_CASE("modes: in a group the chief alone predicts") {
    const TempDir dir;
    REQUIRE(run_process(command(dir, 5, 10), {}, kLimit).exit_code == 0);
    const auto run = run_on(2, kMnist + Words{"--mode", "predict", "--predict-examples", "2",
                                              "--model-dir", dir.path().string()});
    CHECK(run.exit_code == 0);
    CHECK(count(run.out, "logits") == 2);
  }

  TEST_CASE("modes: evaluate, predict and export use what was trained") {
    const TempDir dir;
    REQUIRE(run_process(command(dir, 22, 10), {}, kLimit).exit_code == 0);
    const Words common = {"--model-dir", dir.path().string(), "--train-examples", "1003"};
    const auto evaluated =
        run_process(kMnist + Words{"--mode", "evaluate", "--json-summary"} + common, {}, kLimit);
    CHECK(summary(evaluated)["evaluation"]["global_step"] == 22);

    const Words predict = kMnist + Words{"--mode", "predict", "--predict-examples", "3"} + common;
    const auto predicted = run_process(predict, {}, kLimit);
    INFO(predicted.err);
    REQUIRE(count(predicted.out, "\n") == 3);
    const json first = json::parse(predicted.out.substr(0, predicted.out.find('\n')));
    CHECK(first["logits"].size() == 10);
    const auto absent = run_process(predict + Words{"--predict-keys", "nothing"}, {}, kLimit);
    CHECK(absent.exit_code == 2);
    CHECK(absent.err.find("logits") != std::string::npos);

    const auto exported = run_process(kMnist + Words{"--mode", "export"} + common, {}, kLimit);
    INFO(exported.err);
    REQUIRE(exported.exit_code == 0);
    const fs::path path = exported.out.substr(0, exported.out.find('\n'));
    for (const char* file : {"model.pt", "model.safetensors", "signature.json"}) {
      CHECK(fs::exists(path / file));
    }
    const TempDir empty;
    const auto without = run_process(
        kMnist + Words{"--mode", "export", "--model-dir", empty.path().string()}, {}, kLimit);
    CHECK(without.exit_code == 2);
    CHECK(without.err.find("no trained model") != std::string::npos);
  }
}

}  // namespace train_and_evaluate_test
