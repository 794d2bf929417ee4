// Which role a process has, and what its --mode needs: the checks of more than one setting.
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/command_line.h"

namespace role_test {

using troupe::Cluster;
using troupe::Environment;
using troupe::Options;
using troupe::detail::Evaluator;
using troupe::testing::contains;
using troupe::testing::parsed;
using troupe::testing::refusal;
using troupe::testing::Words;
using troupe::testing::write_file;

namespace {

const Words kBoth = {"--mode", "train_and_evaluate", "--model-dir", "/m"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Environment tf_config(const std::string& type, int index, const std::string& more = "") {
  return {{"TF_CONFIG", R"({"cluster": {"chief": ["c:1"], "worker": ["w0:1", "w1:1"]},
      "task": {"type": ")" + type +
                            "\", \"index\": " + std::to_string(index) + "}" + more + "}"}};
}

void check_evaluator(const Options& options, const std::string& origin) {
  CHECK(options.strategy.cluster.is_evaluator());
  CHECK_FALSE(options.strategy.cluster.is_chief());
  CHECK(options.strategy.cluster.world_size() == 1);
  CHECK(options.strategy.cluster.task() == "evaluator/0");
  CHECK(options.strategy.cluster.origin == origin);
}

std::string notes(const Words& arguments, const Environment& environment) {
  std::string all;
  for (const auto& note :
       troupe::parse_command_line(arguments, environment, troupe::testing::all_flags()).notes) {
    all += note.text + "\n";
  }
  return all;
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("role: TF_CONFIG's evaluator is a group of one, beside the others") {
    const Environment environment = tf_config("evaluator", 0, R"(, "eval_session_master": "X")");
    check_evaluator(parsed(kBoth, environment), "TF_CONFIG");
    CHECK(contains(notes(kBoth, environment),
                   "cluster: evaluator/0, beside the group, from TF_CONFIG"));
  }

  TEST_CASE("role: an evaluator of another index is refused") {
    CHECK(contains(refusal(kBoth, tf_config("evaluator", 1)), "there is only one evaluator"));
    CHECK(contains(refusal(with(kBoth, {"--task", "evaluator:1"})), "--task names evaluator/1"));
  }

  TEST_CASE("role: --task evaluator needs no cluster, in any spelling") {
    for (const char* task : {"evaluator", "evaluator:0", "evaluator/0"}) {
      check_evaluator(parsed(with(kBoth, {"--task", task})), "--task");
    }
    check_evaluator(parsed(kBoth, {{"TROUPE_TASK", "evaluator:0"}}), "TROUPE_TASK");
    CHECK(contains(refusal(with(kBoth, {"--task", "evaluators"})), "no cluster is"));
  }

  TEST_CASE("role: --task evaluator turns any process into one") {
    const Words evaluator = with(kBoth, {"--task", "evaluator"});
    check_evaluator(parsed(evaluator, tf_config("worker", 1)), "TF_CONFIG");
    check_evaluator(parsed(evaluator, {{"TF_CONFIG", R"({"model_dir": "/m"})"}}), "TF_CONFIG");
    check_evaluator(
        parsed(evaluator,
               {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}),
        "--task");
    check_evaluator(parsed(evaluator, {{"TROUPE_RANK", "1"}, {"TROUPE_WORLD_SIZE", "2"}}),
                    "--task");
    CHECK(contains(refusal(with(evaluator, {"--rank", "0"})), "--task asks for the evaluator"));
    CHECK(parsed(with(kBoth, {"--world-size", "1"}), {{"TROUPE_TASK", "evaluator"}})
              .strategy.cluster.task() == "worker/0");
    const troupe::testing::TempDir folder;
    const std::string file =
        write_file(folder / "c.json", R"({"worker": ["a:1", "b:1"], "evaluator": ["e:1"]})");
    check_evaluator(parsed(with(evaluator, {"--cluster", file})), file);
  }

  TEST_CASE("role: a TF_CONFIG's task, and what follows from it, reach the options") {
    const Cluster chief = parsed({}, tf_config("chief", 0)).strategy.cluster;
    CHECK(chief.task() == "chief/0");
    CHECK(chief.is_chief());
    const Cluster worker = parsed({}, tf_config("worker", 1)).strategy.cluster;
    CHECK(worker.task() == "worker/1");
    CHECK_FALSE(worker.is_chief());
    CHECK(worker.evaluator == Evaluator::possible);
    CHECK(worker.world_size() == 3);
    CHECK(worker.rank == 2);
    const Cluster local =
        parsed({}, {{"TF_CONFIG", R"({"session_master": "M"})"}}).strategy.cluster;
    CHECK(local.is_chief());
    CHECK(local.evaluator == Evaluator::none);
  }

  TEST_CASE("role: ranks without a document are workers, of which the first is the chief") {
    const Environment torchrun = {
        {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
    for (const Cluster& cluster :
         {parsed({}, torchrun).strategy.cluster,
          parsed({"--rank", "2", "--world-size", "4", "--chief-address", "a:1"})
              .strategy.cluster}) {
      CHECK(cluster.task() == "worker/2");
      CHECK_FALSE(cluster.is_chief());
      CHECK(cluster.evaluator == Evaluator::possible);
      CHECK(cluster.world_size() == 4);
    }
    CHECK(parsed({"--world-size", "1"}).strategy.cluster.is_chief());
    CHECK(parsed({"--world-size", "1"}).strategy.cluster.evaluator == Evaluator::none);
    CHECK(parsed({}).strategy.cluster.evaluator == Evaluator::none);
  }

  TEST_CASE("role: a worker of troupe run --evaluator knows that it does not evaluate") {
    const Environment one = {
        {"TROUPE_RANK", "0"}, {"TROUPE_WORLD_SIZE", "1"}, {"TROUPE_EVALUATOR", "1"}};
    CHECK(parsed(kBoth, one).strategy.cluster.evaluator == Evaluator::expected);
    CHECK_FALSE(contains(notes(kBoth, one), "TROUPE_EVALUATOR"));
  }

  TEST_CASE("role: TF_CONFIG's model_dir is --model-dir, and both must agree") {
    const Environment some = {{"TF_CONFIG", R"({"model_dir": "/m"})"}};
    CHECK(parsed({}, some).train.model_dir == "/m");
    CHECK(contains(notes({}, some), "--model-dir: /m, from TF_CONFIG"));
    CHECK(parsed({"--model-dir", "/m"}, some).train.model_dir == "/m");
    CHECK(contains(refusal({"--model-dir", "/other"}, some), "TF_CONFIG.model_dir is \"/m\""));
    CHECK(parsed({}, tf_config("worker", 0, R"(, "model_dir": "/m")")).train.model_dir == "/m");
    CHECK(parsed({"--resume", "must"}, some).train.resume == troupe::Resume::must);
    const std::string shown =
        troupe::parse_command_line({"--print-config"}, some, troupe::testing::all_flags()).text;
    const std::size_t line = shown.find("\nmodel-dir ");
    REQUIRE(line != std::string::npos);
    CHECK(contains(shown.substr(line + 1, shown.find('\n', line + 1) - line), "/m"));
    CHECK(contains(shown.substr(line + 1, shown.find('\n', line + 1) - line), "TF_CONFIG"));
  }

  TEST_CASE("role: an evaluator does not train") {
    CHECK(contains(refusal({"--model-dir", "/m"}, tf_config("evaluator", 0)),
                   "TF_CONFIG makes this process the evaluator, but --mode is train. Fix: give "
                   "every process of the job --mode train-and-evaluate."));
  }

  TEST_CASE("mode: dashes and underscores, and train unless told") {
    CHECK(parsed({}).mode == troupe::Mode::train);
    CHECK(parsed(kBoth).mode == troupe::Mode::train_and_evaluate);
    CHECK(parsed({"--mode", "train-and-evaluate", "--model-dir", "/m"}).mode ==
          troupe::Mode::train_and_evaluate);
    CHECK(parsed({"--mode=evaluate"}, {{"TROUPE_MODEL_DIR", "/m"}}).mode == troupe::Mode::evaluate);
    CHECK(parsed({"--model-dir", "/m"}, {{"TROUPE_MODE", "predict"}}).mode ==
          troupe::Mode::predict);
    CHECK(parsed({"--mode=export", "--model-dir=/m"}).mode == troupe::Mode::export_model);
  }

  TEST_CASE("mode: what uses a model needs one, by folder or by checkpoint") {
    for (const char* mode : {"evaluate", "predict", "export"}) {
      CAPTURE(mode);
      CHECK(contains(refusal({"--mode", mode}), "--model-dir and --checkpoint are unset"));
      const Words one = {"--mode", mode, "--checkpoint", "/a/model.ckpt-12//", "--export-dir", "e"};
      CHECK(parsed(one).use.checkpoint == "/a/model.ckpt-12");
    }
    CHECK(contains(refusal({"--mode", "export", "--checkpoint", "model.ckpt-3"}), "--export-dir"));
    CHECK(contains(refusal({"--mode", "train-and-evaluate"}), "without --model-dir"));
    CHECK(contains(refusal({"--checkpoint", "model.ckpt-3"}), "--mode train would not use it"));
  }

  TEST_CASE("mode: train and evaluate saves checkpoints, the others need not") {
    CHECK(contains(refusal(with(kBoth, {"--save-every", "0"})), "--save-every is 0"));
    CHECK_FALSE(contains(refusal(with(kBoth, {"--save-every", "1"})), "--save-every"));
    CHECK_NOTHROW((void)parsed({"--save-every", "0"}));
  }
}

}  // namespace role_test
