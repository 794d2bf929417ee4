// Launchers of others, for real, where this machine has them: each starts two workers, which find
// each other by its variables alone, train, and end with equal weights. Where a launcher is missing
// its case says so and counts as passed.
#include <chrono>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace launchers_test {

using troupe::testing::kLimit;
using troupe::testing::kMnist;
using troupe::testing::ProcessOptions;
using troupe::testing::ProcessResult;
using troupe::testing::run_process;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

const Words kTraining = kMnist + Words{"--max-steps", "6", "--train-examples", "128",
                                       "--threads",   "1", "--no-progress",    "--json-summary"};

/// Nothing of the launcher that may have started this test, and root may use mpirun.
ProcessOptions clean() {
  ProcessOptions options;
  options.set = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  options.unset = {"TF_CONFIG", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  return options;
}

/// Whether `command` ends with 0 and says something.
bool answers(const Words& command) {
  const ProcessResult result = run_process(command, clean(), kLimit);
  return result.exit_code == 0 && !result.out.empty();
}

std::size_t count_of(const std::string& all, const std::string& part) {
  std::size_t count = 0;
  for (auto at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++count;
  return count;
}

/// Starts the training through `launcher`, which `origin` calls by name in the log.
void check_training(const Words& launcher, const std::string& origin) {
  const ProcessResult result = run_process(launcher + kTraining, clean(), kLimit);
  CAPTURE(result.out);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.find("rank 0 of 2, from " + origin) != std::string::npos);
  CHECK(result.err.find("rank 1 of 2, from " + origin) != std::string::npos);
  CHECK(count_of(result.err, "equal on 2 replicas") == 1);  // the chief says it
  CHECK(result.out.find("\"world_size\":2") != std::string::npos);
  CHECK(count_of(result.out, "\"parameter_hash\"") == 1);  // the chief's
}

}  // namespace

TEST_SUITE("launchers") {
  TEST_CASE("launchers: mpirun of Open MPI") {
    if (run_process({"mpirun", "--version"}, clean()).out.find("Open MPI") == std::string::npos) {
      MESSAGE("skipped: no mpirun of Open MPI here");
      return;
    }
    check_training({"mpirun", "-np", "2", "--oversubscribe"}, "Open MPI");
  }

  TEST_CASE("launchers: mpiexec of MPICH, told the chief's address") {
    if (!answers({"mpiexec.hydra", "--version"})) {
      MESSAGE("skipped: no mpiexec.hydra of MPICH here");
      return;
    }
    const std::string address = "127.0.0.1:" + std::to_string(troupe::testing::free_port());
    check_training({"env", "TROUPE_CHIEF_ADDRESS=" + address, "mpiexec.hydra", "-n", "2"}, "MPICH");
  }

  TEST_CASE("launchers: srun of Slurm") {
    if (!answers({"sinfo", "--noheader"})) {
      MESSAGE("skipped: no Slurm controller answers here");
      return;
    }
    check_training({"srun", "--ntasks", "2", "--nodes", "1", "--immediate=20"}, "Slurm");
  }
}

}  // namespace launchers_test
