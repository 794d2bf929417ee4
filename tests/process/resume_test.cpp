// Killed, stopped and continued through the real command line: the weights are those of a run that
// nothing happened to.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace resume_test {

using nlohmann::json;
using troupe::text;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::kMnist;
using troupe::testing::losses_in;
using troupe::testing::Process;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

constexpr int kSteps = 80;  // far more than a run takes until the test has seen its first save

/// 1003 examples in batches of 100: eleven steps an epoch, the last one short.
Words command(const TempDir& model_dir, int max_steps) {
  return kMnist + Words{"--batch-size",
                        "100",
                        "--train-examples",
                        "1003",
                        "--max-steps",
                        std::to_string(max_steps),
                        "--json-summary",
                        "--model-dir",
                        model_dir.path().string(),
                        "--save-every",
                        "4"};
}

Words under_troupe_run(int workers, const Words& program) {
  return Words{kBuild + "/troupe",      "run",         "--workers",
               std::to_string(workers), "--no-prefix", "--"} +
         program;
}

std::string uninterrupted_hash() {
  const TempDir dir;
  return summary(run_on(2, command(dir, kSteps)))["parameter_hash"];
}

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("resume: a group killed in the middle goes on from its checkpoint, bit for bit") {
    const TempDir dir;
    {
      Process run(under_troupe_run(2, command(dir, 100'000)));
      REQUIRE(run.wait_for_output("model.ckpt-8 ", kLimit));
      run.signal(SIGKILL);
      CHECK(run.wait(kLimit).signal == SIGKILL);
    }
    const auto rest = run_on(2, command(dir, kSteps));
    CHECK(rest.err.find("resuming at step ") != std::string::npos);
    const json end = summary(rest);
    CHECK(end["global_step"] == kSteps);
    CHECK(end["parameter_hash"] == uninterrupted_hash());
  }

  TEST_CASE("resume: a killed pod's run goes on in a pod of another name, by troupe run") {
    // As a Kubernetes Job starts it again; the lock that the killed one left names its pod.
    const auto in_pod = [](const std::string& name, const Words& words) {
      return Words{"unshare", "--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", name} + words;
    };
    if (run_process(in_pod("x-1", {"true"})).exit_code != 0) {
      MESSAGE("skipped: a namespace of host names is not permitted here");
      return;
    }
    const TempDir dir;
    {
      Process run(in_pod("x-1", under_troupe_run(1, command(dir, 100'000))));
      REQUIRE(run.wait_for_output("model.ckpt-8 ", kLimit));
      run.signal(SIGKILL);
      CHECK(run.wait(kLimit).signal == SIGKILL);
    }
    const auto refused = run_process(in_pod("x-2", command(dir, kSteps)), {}, kLimit);
    CHECK(refused.exit_code == 3);
    CHECK(refused.err.find("on machine 'x-1'") != std::string::npos);
    CHECK(refused.err.find("start as a later --generation") != std::string::npos);
    const auto rest =
        run_process(in_pod("x-2", under_troupe_run(1, command(dir, kSteps))), {}, kLimit);
    CHECK(rest.err.find("on machine 'x-1'") != std::string::npos);
    CHECK(summary(rest)["global_step"] == kSteps);
  }

  TEST_CASE("resume: what a killed group left is taken over on this machine, whatever its clock") {
    const TempDir dir;
    std::array<char, 256> machine{};
    REQUIRE(::gethostname(machine.data(), machine.size() - 1) == 0);
    std::ofstream(dir / ".troupe-lock")
        << json{{"machine", machine.data()}, {"pid", 5}, {"generation", 99'999'999'999'999}};
    CHECK(run_on(1, command(dir, 4)).exit_code == 0);
    std::ofstream(dir / ".troupe-lock")
        << json{{"machine", machine.data()}, {"pid", 5}, {"generation", 99'999'999'999'999}};
    CHECK(run_on(2, command(dir, 8)).exit_code == 0);
  }

  TEST_CASE(
      "resume: SIGTERM saves on one step, exits 143, and the next start goes on bit for bit") {
    const TempDir dir;
    Process run(under_troupe_run(2, command(dir, 100'000)));
    REQUIRE(run.wait_for_output("loss = ", kLimit));
    run.signal(SIGTERM);
    const auto stopped = run.wait(kLimit);
    CHECK(stopped.exit_code == 143);
    CHECK(stopped.err.find("error[stopped]") != std::string::npos);
    const json end = summary(run_on(2, command(dir, kSteps)));
    CHECK(end["global_step"] == kSteps);
    CHECK(end["parameter_hash"] == uninterrupted_hash());
  }

  TEST_CASE("resume: with another number of workers every example is still read once") {
    const TempDir whole;
    const TempDir dir;
    const TempDir files;
    const std::string expected_file = (files / "whole.jsonl").string();
    const std::string file = (files / "parts.jsonl").string();
    const Words logged = {"--log-every", "1", "--metrics-file"};
    (void)summary(run_on(1, command(whole, 20) + logged + Words{expected_file}));
    (void)summary(run_on(2, command(dir, 7) + logged + Words{file}));
    const auto rest = run_on(3, command(dir, 20) + logged + Words{file});
    CHECK(summary(rest)["world_size"] == 3);
    CHECK(rest.err.find("made by 2 workers with 1 replica each, this run has 3 workers") !=
          std::string::npos);
    const std::vector<double> expected = losses_in(expected_file);
    const std::vector<double> losses = losses_in(file);
    REQUIRE(losses.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) {
      CAPTURE(i);
      CHECK(std::abs(losses[i] - expected[i]) <= 1e-5 * expected[i]);
    }
  }

  TEST_CASE("resume: a rate that was changed counts, whoever steps") {
    const Words run{kBuild + "/troupe", "run", "--no-prefix", "--workers", "2"};
    const Words program = Words{"--"} + kMnist;
    const std::vector<std::pair<const char*, Words>> ways = {
        {"alone", kMnist},
        {"momentum", kMnist + Words{"--momentum", "0.5"}},
        {"central-storage",
         kMnist + Words{"--devices", "cpu:0-1", "--strategy", "central-storage"}},
        {"sharded", run + program + Words{"--shard-optimizer"}},
        {"virtual", run + program + Words{"--virtual-replicas", "4"}},
        {"elastic", run + Words{"--min-workers", "1"} + program + Words{"--virtual-replicas", "4"}},
        {"servers", run + Words{"--ps", "1"} + program +
                        Words{"--strategy", "parameter-server", "--staleness-bound", "0"}}};
    for (const auto& [name, way] : ways) {
      CAPTURE(name);
      const TempDir dir;
      const auto hash = [&, &start = way](const char* steps, const char* rate) {
        return summary(
            run_process(start + Words{"--json-summary", "--max-steps", steps, "--learning-rate",
                                      rate, "--model-dir", dir.path().string()},
                        {}, kLimit))["parameter_hash"];
      };
      const json trained = hash("4", "0.05");
      CHECK(hash("8", "1e-30") == trained);  // too little to change a weight
      CHECK(hash("12", "0.05") != trained);
    }
  }

  TEST_CASE("resume: another process that writes there is named") {
    const TempDir dir;
    Process first(command(dir, 100'000));
    REQUIRE(first.wait_for_output("loss = ", kLimit));
    const auto second = run_on(1, command(dir, 5));
    CHECK(second.exit_code == 3);
    CHECK(second.err.find(std::to_string(first.pid())) != std::string::npos);
  }
}

}  // namespace resume_test
