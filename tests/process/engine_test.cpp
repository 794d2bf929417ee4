// Engines with workers as processes: what the others see when one is killed or stopped, and MPI,
// which knows one rank per process.
#include <signal.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"

namespace {

using troupe::text;
using troupe::testing::free_port;
using troupe::testing::Process;
using troupe::testing::ProcessOptions;
using troupe::testing::ProcessResult;
using troupe::testing::run_process;

constexpr const char* kEndless = "1000000000";
constexpr std::chrono::milliseconds kPatience = troupe::testing::kProcessLimit;

std::vector<std::string> worker(const std::string& engine, const std::string& rank, int size,
                                int port, const std::string& steps) {
  return {TROUPE_BINARY_DIR "/tests/process/trainings",
          "engine_worker",
          engine,
          rank,
          text(size),
          text(port),
          steps};
}

/// Open MPI starts nothing as root unless it is told twice.
ProcessOptions as_anybody() {
  return {{{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}, {}, ""};
}

std::vector<std::string> under_mpirun(int size, const std::vector<std::string>& program) {
  std::vector<std::string> command = {"mpirun", "--oversubscribe", "-np", text(size)};
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

bool has_mpi() {
  if (TROUPE_HAS_MPI == 0) MESSAGE("mpi is not tested: this build has no MPI library");
  const bool launcher = run_process({"mpirun", "--version"}, as_anybody()).exit_code == 0;
  if (!launcher) MESSAGE("mpi is not tested: there is no mpirun here");
  return TROUPE_HAS_MPI != 0 && launcher;
}

/// The losses that one rank printed, each once though all ranks print the same.
std::vector<double> losses_in(const std::string& out, int ranks) {
  std::vector<double> all;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("loss ", 0) == 0) all.push_back(std::stod(line.substr(5)));
  }
  std::vector<double> first;  // equal losses of one step stand side by side when ranks go in step
  if (ranks == 1) return all;
  for (const double loss : all) {
    bool known = false;
    for (const double other : first) known = known || other == loss;
    if (!known) first.push_back(loss);
  }
  return first;
}

std::string hash_in(const std::string& out) {
  const auto at = out.find("hash ");
  return at == std::string::npos ? "" : out.substr(at, out.find('\n', at) - at);
}

/// What rank 0 of a group of processes printed.
std::string run_group_of(const std::string& engine, int size, const std::string& steps) {
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> workers;
  for (int rank = 0; rank < size; ++rank) {
    workers.push_back(std::make_unique<Process>(worker(engine, text(rank), size, port, steps)));
  }
  std::string first;
  for (const auto& process : workers) {
    const ProcessResult result = process->wait(kPatience);
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    if (first.empty()) first = result.out;
  }
  return first;
}

/// One of three workers is killed or stopped in the middle of training by gloo.
void check_survivors_of(int signal) {
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.push_back(std::make_unique<Process>(worker("gloo", text(rank), 3, port, kEndless)));
  }
  for (const auto& process : workers) REQUIRE(process->wait_for_output("looping", kPatience));
  workers[1]->signal(signal);
  for (const int rank : {0, 2}) {
    // The heartbeat's limit is 2 s; their collective timeout is longer than the wait for them.
    const ProcessResult result = workers[static_cast<std::size_t>(rank)]->wait(kPatience);
    CAPTURE(rank);
    CAPTURE(result.err);
    CHECK(!result.timed_out);
    CHECK(result.exit_code == 138);
    CHECK(result.err.find("peer-lost: worker/1 ") != std::string::npos);
  }
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("engines: under gloo a killed worker is named by the others, who end with 138") {
    if (TROUPE_HAS_GLOO == 0) return;
    check_survivors_of(SIGKILL);
  }
  TEST_CASE("engines: under gloo a stopped worker is named by the others, who end with 138") {
    if (TROUPE_HAS_GLOO == 0) return;
    check_survivors_of(SIGSTOP);
  }

  TEST_CASE("engines: mpi gives the losses of the native, and repeats bit for bit") {
    if (!has_mpi()) return;
    const std::vector<double> native = losses_in(run_group_of("native", 2, "21"), 1);
    REQUIRE(native.size() == 21);
    std::string hash;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const ProcessResult result = run_process(
          under_mpirun(2, worker("mpi", "mpi", 2, free_port(), "21")), as_anybody(), kPatience);
      CAPTURE(result.err);
      REQUIRE(result.exit_code == 0);
      const std::vector<double> mpi = losses_in(result.out, 2);
      REQUIRE(mpi.size() == 21);
      for (std::size_t i = 0; i < native.size(); ++i) {
        CHECK(mpi[i] == doctest::Approx(native[i]).epsilon(1e-6));
      }
      if (repeat == 0) hash = hash_in(result.out);
      CHECK(!hash.empty());
      CHECK(hash_in(result.out) == hash);
    }
  }

  TEST_CASE("engines: mpi without mpirun is refused, mpirun is named") {
    if (!has_mpi()) return;
    const int port = free_port();
    Process other(worker("mpi", "1", 2, port, "1"));
    const ProcessResult result =
        run_process(worker("mpi", "0", 2, port, "1"), as_anybody(), kPatience);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("MPI sees rank 0 of 1") != std::string::npos);
    CHECK(result.err.find("mpirun -np") != std::string::npos);
    (void)other.wait(kPatience);
  }
}
