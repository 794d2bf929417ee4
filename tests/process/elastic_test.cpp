// Elastic groups through the real command line: workers are killed and stopped, others take their
// place, and the run ends with the bits of one that nobody disturbed.
// tests/process/elastic_kills.py does so hundreds of times.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/support/caught.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "tests/support/worker_process.h"

namespace elastic_test {

using nlohmann::json;
using namespace troupe::testing;  // NOLINT: a test

namespace {

Words net(const std::string& epochs) {
  return {kBuild + "/tests/process/trainings",
          "virtual_net",
          "--virtual-replicas",
          "4",
          "--batch-size",
          "40",
          "--clip-norm",
          "0.5",
          "--ema-decay",
          "0.9",
          "--threads",
          "1",
          "--log-every",
          "1",
          "--json-summary",
          "--epochs",
          epochs};
}

Words elastic(const std::string& workers, const std::string& restarts) {
  return {kBuild + "/troupe", "run", "--workers",      workers,  "--min-workers", "1",
          "--threads",        "1",   "--max-restarts", restarts, "--no-prefix",   "--"};
}

/// The same with steps of 8 ms at least: a lost worker is told of, and started again, a second
/// after its loss.
Words slowly(Words training) { return Words{"env", "TEST_STEP_MS=8"} + std::move(training); }

/// Everything that a run ends with and that losses must not change.
json ending_of(const ProcessResult& result) {
  const json all = summary(result);
  json ending;
  for (const char* key : {"parameter_hash", "train", "validation", "test", "global_step"}) {
    ending[key] = all.at(key);
  }
  return ending;
}

void signal_worker(const std::string& model_dir, int rank, int number) {
  const int victim = worker_process(model_dir, rank);
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, number) == 0);
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("elastic: the chief is killed, comes again, and then another, with equal bits") {
    const TempDir folder;
    const std::string model_dir = (folder / "model").string();
    Process process(elastic("3", "3") + slowly(net("90")) + Words{"--model-dir", model_dir});
    REQUIRE(process.wait_for_output(" step = 20", kLimit));
    signal_worker(model_dir, 0, SIGKILL);
    REQUIRE(process.wait_for_output("joined the run after step ", kLimit));
    signal_worker(model_dir, 2, SIGKILL);
    const ProcessResult result = process.wait(kLimit);
    INFO(result.err);
    CHECK(ending_of(result) == ending_of(run_on(1, net("90"))));
    CHECK(has(result.err, "worker/0 was killed by signal 9 (Killed) after "));
    CHECK(has(result.err, "it is started again (1 of 3)"));
    CHECK(has(result.err, "round 2: 2 workers continue after step "));
    CHECK(has(result.err, "worker/2 was killed by signal 9 (Killed) after "));
    CHECK(processes_with(model_dir).empty());
  }

  TEST_CASE("elastic: a stopped worker is expelled, and the last one ends the run alone") {
    const TempDir folder;
    const std::string model_dir = (folder / "model").string();
    Process process(elastic("2", "0") + net("40") +
                    Words{"--heartbeat-timeout", "2", "--model-dir", model_dir});
    REQUIRE(process.wait_for_output(" step = 10", kLimit));
    signal_worker(model_dir, 0, SIGSTOP);
    const ProcessResult result = process.wait(kLimit);
    INFO(result.err);
    CHECK(ending_of(result) == ending_of(run_on(1, net("40"))));
    CHECK(has(result.err, "worker/0 gave no sign of life"));
    CHECK(has(result.err, "round 2: 1 worker continues after step "));
    CHECK(processes_with(model_dir).empty());
  }

  TEST_CASE("elastic: one that gets SIGTERM leaves, the others go on, and nobody replaces it") {
    const TempDir folder;
    const std::string model_dir = (folder / "model").string();
    Process process(elastic("3", "3") + slowly(net("60")) + Words{"--model-dir", model_dir});
    REQUIRE(process.wait_for_output(" step = 20", kLimit));
    signal_worker(model_dir, 0, SIGTERM);
    const ProcessResult result = process.wait(kLimit);
    INFO(result.err);
    CHECK(ending_of(result) == ending_of(run_on(1, net("60"))));
    CHECK(has(result.err, "SIGTERM: worker/0 left after step "));
    CHECK(has(result.err, "worker/0 exited with code 143 after "));
    CHECK(has(result.err, "training continues without it"));
    CHECK(has(result.err, "round 2: 2 workers continue after step "));
    CHECK_FALSE(has(result.err, "started again"));
    CHECK_FALSE(has(result.err, "round 3"));
    CHECK(processes_with(model_dir).empty());
  }

  TEST_CASE("elastic: SIGTERM to all workers, or to the launcher, saves and ends all") {
    for (const bool is_launcher : {false, true}) {
      CAPTURE(is_launcher);
      const TempDir folder;
      const std::string model_dir = (folder / "model").string();
      Process process(elastic("2", "3") + net("2000") + Words{"--model-dir", model_dir});
      REQUIRE(process.wait_for_output(" step = 20", kLimit));
      if (is_launcher) {
        process.signal(SIGTERM);
      } else {
        for (const int rank : {0, 1}) signal_worker(model_dir, rank, SIGTERM);
      }
      const ProcessResult result = process.wait(kLimit);
      INFO(result.err);
      CHECK(result.exit_code == 143);
      CHECK(has(result.err, "the state is saved in " + model_dir));
      CHECK(processes_with(model_dir).empty());
    }
  }

  TEST_CASE(
      "elastic: with too few left the newest step is saved, and the next start resumes there") {
    const TempDir folder;
    const std::string model_dir = (folder / "model").string();
    Words command =
        elastic("2", "0") + net("60") + Words{"--save-every", "1000000", "--model-dir", model_dir};
    command[5] = "2";  // --min-workers
    command.insert(command.begin() + 2, {"--regroup-secs", "1"});
    Process process(command);
    REQUIRE(process.wait_for_output(" step = 20", kLimit));
    signal_worker(model_dir, 0, SIGKILL);
    const ProcessResult result = process.wait(kLimit);
    INFO(result.err);
    CHECK(result.exit_code == 138);
    CHECK(has(result.err, "fewer than 2 workers (--min-workers) were left for 1 s"));
    CHECK(has(result.err, "; the state is saved in " + model_dir));
    const ProcessResult again = run_on(1, net("60") + Words{"--model-dir", model_dir});
    CHECK(ending_of(again) == ending_of(run_on(1, net("60"))));
    CHECK_FALSE(has(again.err, "resuming at step 0 "));
    CHECK(has(again.err, "resuming at step "));
  }

  TEST_CASE("elastic: without anybody who holds the state it begins from the newest checkpoint") {
    const TempDir folder;
    const std::string model_dir = (folder / "model").string();
    Process process(elastic("2", "2") + slowly(net("40")) +
                    Words{"--save-every", "5", "--model-dir", model_dir});
    REQUIRE(process.wait_for_output("model.ckpt-20", kLimit));
    for (const int rank : {0, 1}) signal_worker(model_dir, rank, SIGKILL);
    const ProcessResult result = process.wait(kLimit);
    INFO(result.err);
    CHECK(ending_of(result) == ending_of(run_on(1, net("40"))));
    CHECK(has(result.err, "resuming at step "));
  }

  TEST_CASE("elastic: an example that kills who computes it ends the run, and is named") {
    const TempDir folder;
    const std::string model_dir = (folder / "model").string();
    const ProcessResult result =
        run_process(Words{"env", "TEST_DEADLY_EXAMPLE=17"} + elastic("3", "9") + net("40") +
                        Words{"--save-every", "1", "--model-dir", model_dir},
                    {}, kLimit);
    INFO(result.err);
    CHECK(result.exit_code == 1);
    CHECK(has(result.err, " was lost 3 times in a row: worker/"));
    CHECK(has(result.err, ": virtual replicas "));
    CHECK(has(result.err, " 17,"));
    CHECK(processes_with(model_dir).empty());
  }

  TEST_CASE("elastic: a program without virtual replicas is refused") {
    const ProcessResult result = run_process(elastic("2", "0") + kMnist, {}, kLimit);
    CHECK(result.exit_code == 2);
    CHECK(has(result.err, "was given no --virtual-replicas"));
  }
}

}  // namespace elastic_test
