// The equivalences, through the real command line: what a user runs, compared number by number.
#include <signal.h>

#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace training_test {

using nlohmann::json;
using troupe::text;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::kMnist;
using troupe::testing::losses_in;
using troupe::testing::Process;
using troupe::testing::ProcessOptions;
using troupe::testing::ProcessResult;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::tf_config;
using troupe::testing::Words;
using troupe::testing::operator+;

TEST_SUITE("training") {
  TEST_CASE("training: 1, 2, 3 and 4 workers take the same 20 steps") {
    // 1003 examples in batches of 100: the last batch of an epoch has 3, so that with 4 workers one
    // of them has none.
    const TempDir dir;
    std::vector<double> alone;
    for (const int workers : {1, 2, 3, 4}) {
      CAPTURE(workers);
      const std::string file = text(dir.path().string(), "/", workers, ".jsonl");
      const auto result =
          run_on(workers, kMnist + Words{"--batch-size", "100", "--train-examples", "1003",
                                         "--max-steps", "22", "--log-every", "1", "--metrics-file",
                                         file, "--json-summary"});
      CHECK(summary(result)["world_size"] == workers);
      const auto losses = losses_in(file);
      REQUIRE(losses.size() == 22);
      if (workers == 1) alone = losses;
      for (std::size_t i = 0; i < 20; ++i) {
        CAPTURE(i);
        CHECK(std::abs(losses[i] - alone[i]) <= 1e-5 * alone[i]);
      }
    }
    CHECK(alone.back() < alone.front());
  }

  TEST_CASE("training: replicas in one process, alone and in workers, take the same 20 steps") {
    const TempDir dir;
    const Words command =
        kMnist + Words{"--batch-size", "100", "--train-examples", "1003",
                       "--max-steps",  "22",  "--log-every",      "1",
                       "--threads",    "1",   "--json-summary",   "--metrics-file"};
    std::vector<double> alone;
    json evaluated;
    for (const auto& layout : {std::pair(1, 1), {1, 2}, {1, 4}, {2, 2}}) {
      const auto workers = layout.first;
      const auto replicas = layout.second;
      CAPTURE(workers);
      CAPTURE(replicas);
      const std::string file = text(dir.path().string(), "/", workers, "-", replicas, ".jsonl");
      const json now = summary(
          run_on(workers, command + Words{file, "--devices", text("cpu:0-", replicas - 1)}));
      CHECK(now["replicas"] == workers * replicas);
      CHECK(now["strategy"] == (workers > 1    ? "multi-worker"
                                : replicas > 1 ? "mirrored"
                                               : "one-device"));
      const auto losses = losses_in(file);
      REQUIRE(losses.size() == 22);
      if (alone.empty()) {
        alone = losses;
        evaluated = now;
      }
      for (std::size_t i = 0; i < 20; ++i) {
        CAPTURE(i);
        CHECK(std::abs(losses[i] - alone[i]) <= 1e-5 * alone[i]);
      }
      CHECK(now["test"]["examples"] == evaluated["test"]["examples"]);
    }
  }

  TEST_CASE("training: a step in parts is the same step, and clipped it is on any layout") {
    const TempDir dir;
    const auto losses_of = [&](int workers, const Words& more) {
      const std::string file = (dir.path() / "losses.jsonl").string();
      (void)summary(run_on(workers, kMnist +
                                        Words{"--batch-size", "100", "--train-examples", "1003",
                                              "--max-steps", "12", "--log-every", "1", "--threads",
                                              "1", "--json-summary", "--metrics-file", file} +
                                        more));
      auto losses = losses_in(file);
      REQUIRE(losses.size() == 12);
      std::filesystem::remove(file);
      return losses;
    };
    const auto check_equal = [](const std::vector<double>& losses,
                                const std::vector<double>& expected) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(losses[i] - expected[i]) <= 1e-5 * expected[i]);
      }
    };
    const auto plain = losses_of(1, {});
    check_equal(losses_of(1, {"--accumulate", "4"}), plain);
    const Words clipped = {"--clip-norm", "1"};
    const auto expected = losses_of(1, clipped);
    CHECK(expected.back() != plain.back());
    check_equal(losses_of(1, clipped + Words{"--accumulate", "4"}), expected);
    check_equal(losses_of(2, clipped + Words{"--accumulate", "4", "--devices", "cpu:0-1"}),
                expected);
    const auto small = losses_of(1, {"--precision", "bfloat16"});
    CHECK(small[5] != plain[5]);
    CHECK(small[5] == doctest::Approx(plain[5]).epsilon(0.05));
  }

  TEST_CASE("training: workers that differ in a step's options refuse each other, exit 2") {
    const auto port = text(troupe::testing::free_port());
    const auto start = [&](const char* rank, const Words& more) {
      return std::make_unique<Process>(kMnist +
                                       Words{"--rank", rank, "--world-size", "2", "--chief-address",
                                             "127.0.0.1:" + port, "--max-steps", "2"} +
                                       more);
    };
    const auto chief = start("0", {"--accumulate", "2"});
    const auto worker = start("1", {"--accumulate", "3"});
    for (Process* process : {chief.get(), worker.get()}) {
      const auto result = process->wait(kLimit);
      CAPTURE(result.err);
      CHECK(result.exit_code == 2);
      CHECK(result.err.find("--accumulate") != std::string::npos);
    }
  }

  TEST_CASE("training: two replicas repeat, and resume, bit for bit") {
    const TempDir dir;
    const auto hash_of = [&](const Words& more) {
      return summary(
          run_on(1, kMnist +
                        Words{"--devices", "cpu:0,cpu:1", "--train-examples", "300", "--batch-size",
                              "100", "--threads", "1", "--json-summary"} +
                        more))["parameter_hash"];
    };
    const std::string whole = (dir.path() / "whole").string();
    const std::string parts = (dir.path() / "parts").string();
    const auto expected = hash_of({"--max-steps", "8", "--model-dir", whole});
    (void)hash_of({"--max-steps", "4", "--model-dir", parts});
    CHECK(hash_of({"--max-steps", "8", "--model-dir", parts}) == expected);
  }

  TEST_CASE(
      "training: the model directory's summaries hold each epoch's reports and the last step") {
    for (const int workers : {1, 2}) {
      const TempDir dir;
      const json end = summary(run_on(
          workers,
          kMnist + Words{"--epochs", "2", "--train-examples", "320", "--batch-size", "32",
                         "--threads", "1", "--model-dir", dir.path().string(), "--json-summary"}));
      std::map<std::int64_t, json> by_step;
      std::ifstream in(dir.path() / "summaries.jsonl");
      for (std::string line; std::getline(in, line);) {
        const json object = json::parse(line);
        by_step[object["step"]].update(object);
      }
      for (const int step : {10, 20}) {
        for (const char* tag :
             {"train/loss", "train/accuracy", "validation/loss", "validation/accuracy"}) {
          CHECK_MESSAGE(by_step[step].contains(tag), tag, " at step ", step);
        }
      }
      CHECK(by_step[1].contains("loss"));
      CHECK(by_step[20].contains("loss"));
      CHECK(by_step[20]["validation/accuracy"] == end["validation"]["accuracy"]);
      CHECK(by_step[20]["train/loss"] == end["train"]["loss"]);
    }
  }

  TEST_CASE("training: data of any size from `digits` can be trained on") {
    const TempDir dir;
    const std::string data = (dir.path() / "digits").string();
    const auto made =
        run_on(1, {kBuild + "/examples/digits", "--out", data, "--train", "300", "--test", "50"});
    REQUIRE(made.exit_code == 0);
    const json end = summary(run_on(1, {kBuild + "/examples/mnist", "--data-dir", data, "--epochs",
                                        "1", "--threads", "1", "--json-summary"}));
    CHECK(end["train"]["examples"] == 250);
    CHECK(end["validation"]["examples"] == 50);
  }

  TEST_CASE("training: one device and central storage by name are the steps of auto, bit for bit") {
    const TempDir dir;
    const auto hash_of = [&](const Words& more) {
      const json now = summary(run_on(1, kMnist +
                                             Words{"--train-examples", "300", "--batch-size", "100",
                                                   "--threads", "1", "--json-summary"} +
                                             more));
      return now["parameter_hash"];
    };
    CHECK(hash_of({"--max-steps", "6", "--strategy", "one-device"}) ==
          hash_of({"--max-steps", "6"}));
    const Words central = {"--devices", "cpu:0-2", "--strategy", "central-storage"};
    const auto expected = hash_of({"--max-steps", "8", "--devices", "cpu:0-2"});
    CHECK(hash_of(Words{"--max-steps", "8"} + central) == expected);
    const std::string parts = (dir.path() / "parts").string();
    (void)hash_of(Words{"--max-steps", "4", "--model-dir", parts} + central);
    CHECK(hash_of(Words{"--max-steps", "8", "--model-dir", parts} + central) == expected);
  }

  TEST_CASE(
      "training: an evaluation of the same weights counts the same on any number of workers and "
      "replicas") {
    json alone;
    for (const auto& layout : {std::pair(1, 1), {2, 1}, {3, 1}, {1, 3}, {2, 2}}) {
      const auto workers = layout.first;
      const auto replicas = layout.second;
      CAPTURE(workers);
      CAPTURE(replicas);
      // A step so small that float32 weights do not move.
      const auto result =
          run_on(workers, {kBuild + "/examples/mnist", "--learning-rate", "1e-30",
                           "--train-examples", "200", "--batch-size", "97", "--max-steps", "1",
                           "--json-summary", "--devices", text("cpu:0-", replicas - 1)});
      const json now = summary(result);
      if (alone.is_null()) alone = now;
      CHECK(now["test"]["correct"] == alone["test"]["correct"]);
      CHECK(now["test"]["examples"] == alone["test"]["examples"]);
      CHECK(now["validation"]["correct"] == alone["validation"]["correct"]);
      CHECK(now["parameter_hash"] == alone["parameter_hash"]);
    }
    CHECK(alone["test"]["examples"] == 2000);
  }

  TEST_CASE("training: the same seed gives the same weights, another seed others") {
    const Words command =
        kMnist + Words{"--train-examples", "500", "--max-steps", "10", "--json-summary"};
    const json first = summary(run_on(2, command));
    CHECK(summary(run_on(2, command))["parameter_hash"] == first["parameter_hash"]);
    CHECK(summary(run_on(2, command + Words{"--seed", "2"}))["parameter_hash"] !=
          first["parameter_hash"]);
  }

  TEST_CASE("training: two shells with TF_CONFIG, no chief, train together") {
    const std::vector<std::uint16_t> ports = {troupe::testing::free_port(),
                                              troupe::testing::free_port()};
    const Words command =
        kMnist + Words{"--train-examples", "300", "--json-summary", "--threads", "1"};
    Process second(command, tf_config(ports, 1));
    Process first(command, tf_config(ports, 0));
    const json chief = summary(first.wait(kLimit));
    CHECK(chief["world_size"] == 2);
    CHECK(second.wait(kLimit).exit_code == 0);
    CHECK(second.out().empty());
  }

  TEST_CASE("training: kill -9 of one of three: the others name it and exit 138 within 2 s") {
    const std::vector<std::uint16_t> ports = {
        troupe::testing::free_port(), troupe::testing::free_port(), troupe::testing::free_port()};
    const Words command =
        kMnist + Words{"--epochs", "1000", "--threads", "1", "--log-level", "info"};
    std::vector<std::unique_ptr<Process>> workers;
    for (int i = 0; i < 3; ++i) {
      workers.push_back(std::make_unique<Process>(command, tf_config(ports, i)));
    }
    REQUIRE(workers[0]->wait_for_output("loss = ", kLimit));
    workers[1]->signal(SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    for (const int survivor : {0, 2}) {
      CAPTURE(survivor);
      const auto result = workers[static_cast<std::size_t>(survivor)]->wait(kLimit);
      CHECK(std::chrono::steady_clock::now() - killed < std::chrono::seconds(2));
      CHECK(result.exit_code == 138);
      CHECK(result.err.find("troupe: error[peer-lost]") != std::string::npos);
      CHECK(result.err.find("worker/1") != std::string::npos);
    }
  }

  TEST_CASE("training: settings that must agree are compared when the workers meet") {
    const std::vector<std::uint16_t> ports = {troupe::testing::free_port(),
                                              troupe::testing::free_port()};
    Process chief(kMnist + Words{"--batch-size", "64"}, tf_config(ports, 0));
    Process other(kMnist + Words{"--batch-size", "32"}, tf_config(ports, 1));
    for (Process* worker : {&chief, &other}) {
      const auto result = worker->wait(kLimit);
      CHECK(result.exit_code == 2);
      for (const char* part : {"--batch-size", "64", "32", "worker/0", "worker/1"}) {
        CAPTURE(part);
        CHECK(result.err.find(part) != std::string::npos);
      }
    }
  }

  TEST_CASE("training: an exception in one worker's hook is everybody's reason") {
    const auto result =
        run_on(2, {kBuild + "/tests/process/trainings", "wrong_hook", "--wrong", "throws"});
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("the hook of rank 1 gave up") != std::string::npos);
    CHECK(result.err.find("worker/1") != std::string::npos);
  }

  TEST_CASE("training: whatever is thrown is told once, whole, and its worker is blamed by all") {
    struct Row {
      const char* wrong;
      const char* says;
    };
    for (const Row& row : {Row{"throws-range", "map::at (std::out_of_range)"},
                           Row{"throws-lines", "two lines of text (std::runtime_error)"},
                           Row{"throws-number", "it threw int, which is no std::exception"}}) {
      CAPTURE(row.wrong);
      for (int repetition = 0; repetition < 3; ++repetition) {
        const auto result =
            run_process({kBuild + "/troupe", "run", "--workers", "3", "--",
                         kBuild + "/tests/process/trainings", "wrong_hook", "--wrong", row.wrong},
                        {}, kLimit);
        CAPTURE(result.err);
        CHECK(result.exit_code == 1);
        const std::string told =
            std::string("[worker/1] troupe: error[failed]: train_step failed ") +
            "after 2 steps of training, on a batch of ";
        CHECK(result.err.find(told) != std::string::npos);
        CHECK(result.err.find(row.says) != std::string::npos);
        CHECK(result.err.find("replica 1 of 3") != std::string::npos);
        CHECK(result.err.find("troupe: worker/1 exited with code 1") != std::string::npos);
        CHECK(result.err.find("troupe: worker/0 exited") == std::string::npos);
        CHECK(result.err.find("troupe: worker/2 exited") == std::string::npos);
      }
    }
  }

  TEST_CASE("training: an exception in one replica's hook ends the process with its message") {
    const auto result = run_on(1, {kBuild + "/tests/process/trainings", "wrong_hook", "--wrong",
                                   "throws", "--devices", "cpu:0-2"});
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("the hook of rank 1 gave up") != std::string::npos);
  }

  TEST_CASE("training: what several replicas would train wrongly ends before the second step") {
    const TempDir dir;
    const auto losses = (dir.path() / "losses.jsonl").string();
    const auto end_of = [&](const char* wrong, const Words& more, int workers) {
      std::filesystem::remove(losses);
      return run_on(workers,
                    Words{kBuild + "/tests/process/trainings", "wrong_hook", "--wrong", wrong,
                          "--max-steps", "3", "--log-every", "1", "--metrics-file", losses} +
                        more);
    };
    CHECK(end_of("nothing", {}, 1).exit_code == 0);
    CHECK(losses_in(losses).size() == 3);
    const std::vector<std::array<const char*, 3>> wrongs = {
        {"local-mean", "train_step gave apply_gradients", "replica.global_mean"},
        {"result", "train_step returned loss", "replica.global_mean"},
        {"nothing-applied", "train_step did not call apply_gradients", "replica.apply_gradients("},
        {"own-step", "train_step changed parameter \"weight\"", "replica.apply_gradients("}};
    const auto check = [&](const ProcessResult& result, const char* cause, const char* fix) {
      CAPTURE(result.err);
      CHECK(result.exit_code == 2);
      CHECK(result.err.find(cause) != std::string::npos);
      CHECK(result.err.find(fix, result.err.find("Fix: ")) != std::string::npos);
      CHECK(losses_in(losses).empty());
    };
    for (const auto& row : wrongs) {
      CAPTURE(row[0]);
      check(end_of(row[0], {}, 1), row[1], row[2]);
      check(end_of(row[0], {"--devices", "cpu:0-1"}, 1), row[1], row[2]);
    }
    for (const auto& row : {wrongs[0], wrongs[2]}) {
      CAPTURE(row[0]);
      check(end_of(row[0], {}, 2), row[1], row[2]);
    }
  }

  TEST_CASE("training: weights that one worker changes end the run, and are not saved") {
    const auto end_of = [&](int workers, const char* check_every, const TempDir& dir,
                            const char* wrong) {
      return run_on(workers, {kBuild + "/tests/process/trainings", "wrong_hook", "--wrong", wrong,
                              "--max-steps", "9", "--model-dir", dir.path().string(),
                              "--save-every", "4", "--check-weights-every", check_every});
    };
    const auto check = [&](int workers, const char* check_every, const std::string& who_and_when) {
      CAPTURE(workers);
      const TempDir dir;
      const auto result = end_of(workers, check_every, dir, "weight-by-rank");
      INFO(result.err);
      CHECK(result.exit_code == 138);
      CHECK(result.err.find("error[weights-differ]: " + who_and_when +
                            ", first in \"weight\". Nothing of this step was saved; the newest "
                            "checkpoint is of step 4. Fix: start the group again") !=
            std::string::npos);
      CHECK(std::filesystem::exists(dir / "model.ckpt-4"));
      CHECK_FALSE(std::filesystem::exists(dir / "model.ckpt-8"));
      // The same program without the fault resumes.
      CHECK(end_of(workers, check_every, dir, "nothing").exit_code == 0);
      CHECK(std::filesystem::exists(dir / "model.ckpt-9"));
    };
    check(2, "3", "after step 6 the weights of rank 0, rank 1 differ");
    check(3, "3", "after step 6 the weights of rank 1 differ from those of the others");
    check(3, "0", "after step 8 the weights of rank 1 differ from those of the others");
  }

  TEST_CASE("training: LibTorch's error in a hook names the hook, the step and the batch") {
    const auto result = run_on(1, {kBuild + "/tests/process/trainings", "wrong_hook", "--wrong",
                                   "shapes", "--max-steps", "3"});
    CAPTURE(result.err);
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("error[failed]: train_step failed after 0 steps of training, on a batch "
                          "of [4, 1], [4, 1] (examples ") != std::string::npos);
    // LibTorch 2.15 has "mm: " before it.
    CHECK(result.err.find("mat1 and mat2 shapes cannot be multiplied (4x1 and 3x3). Fix: ") !=
          std::string::npos);
  }
}

}  // namespace training_test
