// `troupe run --evaluator`: one process beside the workers, whose failure stops nobody.
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/launcher/run/launch_environment.h"
#include "troupe/launcher/run/launch_options.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

/// What the evaluator does, and what a worker does.
std::string roles(const std::string& evaluator, const std::string& worker) {
  return "if [ \"$TROUPE_TASK\" = evaluator:0 ]; then " + evaluator + "; else " + worker + "; fi";
}

const std::string kRuns = "sleep 1000 & echo ready evaluator; wait";

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("launch options: --evaluator is a switch, off unless given") {
    CHECK_FALSE(troupe::parse_launch_options({"--workers", "2", "--", "true"}).evaluator);
    CHECK(troupe::parse_launch_options({"--workers", "1", "--evaluator", "--", "true"}).evaluator);
    CHECK_THROWS_AS(
        (void)troupe::parse_launch_options({"--workers", "1", "--evaluator=2", "--", "true"}),
        troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::parse_launch_options({"--evaluator", "--", "true"}),
                    troupe::ConfigError);
    CHECK(has(troupe::launch_help(), "--evaluator"));
  }

  TEST_CASE("launch environment: the evaluator has a role and no place in the group") {
    troupe::LaunchPlan plan{{7, 0, 2, 0, "127.0.0.1", 4000}, 2, 2, 0};
    CHECK(troupe::launch_environment({}, plan).variables["TROUPE_EVALUATOR"] == "0");
    plan.evaluator = true;
    troupe::Environment variables = troupe::launch_environment({}, plan).variables;
    CHECK(variables["TROUPE_EVALUATOR"] == "1");
    CHECK(variables.count("TROUPE_TASK") == 0);
    variables = troupe::environment_of({troupe::LaunchRole::evaluator, 0}, variables);
    CHECK(variables["TROUPE_TASK"] == "evaluator:0");
    CHECK(variables["TROUPE_GENERATION"] == "7");
    for (const char* name : {"TROUPE_RANK", "TROUPE_WORLD_SIZE", "TROUPE_CHIEF_ADDRESS",
                             "TROUPE_LISTEN_FD", "TROUPE_EVALUATOR"}) {
      CAPTURE(name);
      CHECK(variables.count(name) == 0);
    }
  }

  TEST_CASE("troupe run --evaluator: it runs beside the workers, and the launcher waits for it") {
    for (const char* workers : {"1", "2"}) {
      CAPTURE(workers);
      const TempDir folder;
      const Gates gates;
      Process process(run_command(
          {"--workers", workers, "--evaluator", "--log-dir", (folder / "logs").string()},
          roles(gates.wait("end") + "echo rank=$TROUPE_RANK evaluated",
                "echo $TROUPE_RANK of $TROUPE_WORLD_SIZE knows $TROUPE_EVALUATOR")));
      REQUIRE(process.wait_for_output(std::string("[worker/0] 0 of ") + workers + " knows 1\n"));
      gates.open("end");
      const ProcessResult result = process.wait();
      CHECK(result.exit_code == 0);
      CHECK(has(result.out, "[evaluator/0] rank= evaluated\n"));
      CHECK(has(result.err, " and an evaluator on "));
      CHECK(std::filesystem::exists(folder / "logs/worker-0.log"));
      std::ifstream log(folder / "logs/evaluator-0.log");
      std::string line;
      std::getline(log, line);
      CHECK(line == "rank= evaluated");
    }
  }

  TEST_CASE("troupe run --evaluator: whose end stops whom, and who is named") {
    const Gates gates;
    const std::vector<std::string> two = {"--workers", "2", "--evaluator"};
    const std::string saves =
        "trap 'echo saved; exit 143' TERM; sleep 1000 & echo ready $TROUPE_RANK; wait";
    const std::vector<std::string> all_ready = {"ready 0\n", "ready 1\n", "ready evaluator\n"};
    std::vector<Scenario> scenarios = {
        {"a failed worker stops it",
         run_command(two, roles(kRuns, "if [ $TROUPE_RANK = 1 ]; then " + gates.wait("fail") +
                                           "exit 7; fi; sleep 1000")),
         7,
         {"troupe: worker/1 exited with code 7 after ", {"evaluator/0", 0}},
         {},
         {"ready evaluator\n"},
         open(gates, "fail")},
        {"its failure stops no worker, and is told and returned",
         run_command(two, roles("echo no checkpoint >&2; exit 5", "if [ $TROUPE_RANK = 0 ]; then " +
                                                                      gates.wait("train") +
                                                                      "echo trained; fi")),
         5,
         {"troupe: evaluator/0 exited with code 5 after ", "  no checkpoint\n"},
         {"[worker/0] trained\n"},
         {"troupe: evaluator/0 exited with code 5; training continues without evaluation.\n"},
         open(gates, "train")},
        {"after its failure, a worker's own is the one that counts",
         run_command({"--workers", "1", "--evaluator"},
                     roles("exit 5", gates.wait("count") + "exit 7")),
         7,
         {"troupe: worker/0 exited with code 7 after ",
          {"evaluator/0 exited with code 5 after ", 0}},
         {},
         {"training continues without evaluation.\n"},
         open(gates, "count")},
        // The grace period is longer than the test may take: nothing here waits for it.
        {"when all workers lost each other, it ends with them",
         run_command({"--workers", "2", "--evaluator", "--grace", "3000"},
                     roles(kRuns, "exit 138")),
         138,
         {{"evaluator/0", 0}}},
        {"it is not taken for the one that the others lost",
         run_command({"--workers", "2", "--evaluator", "--grace", "1"},
                     roles(kRuns, "if [ $TROUPE_RANK = 0 ]; then exit 138; fi; sleep 1000")),
         138,
         {"troupe: worker/1 did not end and did not answer the others", {"evaluator/0", 0}}},
    };
    for (const std::string& evaluator :
         {kRuns, "trap 'exit 0' TERM; " + kRuns, "trap 'exit 143' TERM; " + kRuns})
      scenarios.push_back({"SIGTERM reaches all, and its end changes no saved stop",
                           run_command(two, roles(evaluator, saves)),
                           143,
                           {{"evaluator/0", 0}},
                           {{"saved\n", 2}},
                           all_ready,
                           send({SIGTERM})});
    check_runs(scenarios);
  }
}
