// One training on two machines (two_machines.h): by mpirun and by `troupe run`, cut off, and
// started again.
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>

#include "tests/process/two_machines.h"
#include "tests/support/caught.h"
#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"
#include "tests/support/worker_process.h"
#include "troupe/core/clock.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

const std::string kTool = TROUPE_BINARY_DIR "/troupe";
constexpr std::chrono::milliseconds kLimit = kProcessLimit;
// Until a silent node is lost, and a second; two more for a machine with other work.

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Hash of the parameters in a summary; "" where there is none.
std::string hash_in(const std::string& out) {
  const std::string key = "\"parameter_hash\":\"";
  const std::size_t at = out.find(key);
  return at == std::string::npos ? "" : out.substr(at + key.size(), 64);
}

Words mnist(const std::string& steps, const std::string& model_dir = "") {
  const Words training = {"--",
                          TROUPE_BINARY_DIR "/examples/mnist",
                          "--data-dir",
                          TROUPE_BINARY_DIR "/tests/few_digits",
                          "--train-examples",
                          "320",
                          "--max-steps",
                          steps,
                          "--batch-size",
                          "32",
                          "--json-summary"};
  if (model_dir.empty()) return training;
  return training + Words{"--model-dir", model_dir, "--save-every", "5"};
}

/// What four workers on one machine end with.
std::string hash_of_one_machine(const std::string& steps) {
  return hash_in(run_process(Words{kTool, "run", "--workers", "4", "--threads", "1"} + mnist(steps),
                             {}, kLimit)
                     .out);
}

/// False, loudly: the test cannot run here.
bool can_run(const TwoMachines& machines) {
  if (!machines.lacks().empty())
    MESSAGE("SKIPPED, not passed: this machine lacks " << machines.lacks());
  return machines.lacks().empty();
}

/// Both launchers of a group without ssh.
struct Nodes {
  Nodes(const TwoMachines& machines, const Words& options, const std::string& steps)
      : second(machines.on(1, words(1, options, steps))),
        first(machines.on(0, words(0, options, steps))) {}
  [[nodiscard]] Words words(int node, const Words& options, const std::string& steps) const {
    return Words{kTool,           "run",
                 "--nodes",       "2",
                 "--node",        std::to_string(node),
                 "--rendezvous",  "10.77.0.1:29500",
                 "--secret-file", secret,
                 "--workers",     "2",
                 "--threads",     "1"} +
           options + mnist(steps, model_dir);
  }
  std::string make_secret() const {
    std::string path = (folder / "secret").string();
    REQUIRE(run_process({kTool, "secret", path}).exit_code == 0);
    return path;
  }
  const TempDir folder;
  const std::string model_dir = (folder / "model").string();
  const std::string secret = make_secret();
  Process second;
  Process first;
};

Words elastic_net(const std::string& steps) {
  return {TROUPE_BINARY_DIR "/tests/process/trainings",
          "virtual_net",
          "--virtual-replicas",
          "4",
          "--batch-size",
          "40",
          "--threads",
          "1",
          "--max-steps",
          steps,
          "--json-summary"};
}

// Enough that two workers are busy until the others have come again.
constexpr const char* kElasticSteps = "300";
constexpr const char* kPause = "TEST_STEP_MS=20";

/// What one process ends with.
std::string elastic_hash() {
  return hash_in(run_process(elastic_net(kElasticSteps), {}, kLimit).out);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Both launchers of an elastic group. Both see the same files.
struct Elastic {
  Elastic(const TwoMachines& machines, const std::string& steps, std::string seconds)
      : regroup(std::move(seconds)),
        second(machines.on(1, words(1, steps))),
        first(machines.on(0, words(0, steps))) {}
  [[nodiscard]] Words words(int node, const std::string& steps) const {
    return Words{kTool,
                 "run",
                 "--nodes",
                 "2",
                 "--node",
                 std::to_string(node),
                 "--rendezvous",
                 "10.77.0.1:29500",
                 "--secret-file",
                 secret,
                 "--workers",
                 "2",
                 "--min-workers",
                 "1",
                 "--max-restarts",
                 "9",
                 "--regroup-secs",
                 regroup,
                 "--",
                 "env",
                 kPause} +
           elastic_net(steps) + Words{"--model-dir", model_dir, "--save-every", "5"};
  }
  std::string make_secret() const {
    std::string path = (folder / "secret").string();
    REQUIRE(run_process({kTool, "secret", path}).exit_code == 0);
    return path;
  }
  /// The round without node 1 begins in time, and not before its workers have ended.
  void check_goes_on_without_node_1(std::chrono::steady_clock::time_point cut) {
    const troupe::Deadline deadline = troupe::Deadline::in(kLimit);
    bool goes_on = false;
    double ended = 0;
    while (!goes_on && !deadline.expired()) {
      goes_on = first.wait_for_output("round 2: 2 workers continue", std::chrono::milliseconds(5));
      const bool here = worker_process(model_dir, 2) > 0 || worker_process(model_dir, 3) > 0;
      if (!here && ended == 0) ended = seconds_since(cut);
      CHECK_FALSE((goes_on && here));
    }
    CHECK(goes_on);
    CHECK(ended > 2);  // the lease: 4.5 s, of which a second may have passed
    MESSAGE("its workers ended after " << ended << " s, the others went on after "
                                       << seconds_since(cut) << " s");
  }
  const std::string regroup;
  const TempDir folder;
  const std::string model_dir = (folder / "model").string();
  const std::string secret = make_secret();
  Process second;
  Process first;
};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("two machines: mpirun trains the parameters of four workers on one machine, over TLS") {
    const TwoMachines machines(TwoMachines::Ssh::with);
    if (!can_run(machines)) return;
    const TempDir folder;
    const std::string secret = (folder / "secret").string();
    REQUIRE(run_process({kTool, "secret", secret}).exit_code == 0);
    Words command = {"mpirun",
                     "--allow-run-as-root",
                     "--mca",
                     "plm_rsh_agent",
                     machines.ssh(),
                     "-H",
                     "10.77.0.1:2,10.77.0.2:2",
                     "--bind-to",
                     "none",
                     "-x",
                     "MASTER_ADDR=10.77.0.1",
                     "-x",
                     "MASTER_PORT=2222"};
    // What chooses kernels decides the bits, and ssh does not pass it on.
    for (const char* const name : {"OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "MKL_CBWR"})
      if (std::getenv(name) != nullptr) command = command + Words{"-x", name};
    const Words program = mnist("20");
    command.insert(command.end(), program.begin() + 1, program.end());
    const ProcessResult result = run_process(
        machines.on(0, command + Words{"--threads", "1", "--secret-file", secret}), {}, kLimit);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(has(result.err, "by Unix sockets and TCP with TLS"));
    CHECK(hash_in(result.out).size() == 64);
    CHECK(hash_in(result.out) == hash_of_one_machine("20"));
  }

  TEST_CASE("two machines: the cable is cut: each node names the other") {
    const TwoMachines machines(TwoMachines::Ssh::without);
    if (!can_run(machines)) return;
    Nodes nodes(machines, {}, "1000000");
    REQUIRE(nodes.first.wait_for_output("model.ckpt-5 ", kLimit));
    machines.cut_cable();
    const ProcessResult first = nodes.first.wait(kLimit);
    const ProcessResult second = nodes.second.wait(kLimit);
    CHECK(first.exit_code == 138);
    CHECK(second.exit_code == 138);
    CHECK(has(first.err, "node/1 (10.77.0.2:"));
    CHECK(has(second.err, "node/0 (10.77.0.1:29500) is lost: no heartbeat for "));
    CHECK(processes_with(nodes.model_dir).empty());
  }

  TEST_CASE("two machines: kill -9 of a worker, and the group ends as if nothing had been") {
    const TwoMachines machines(TwoMachines::Ssh::without);
    if (!can_run(machines)) return;
    Nodes nodes(machines, {"--max-restarts", "3"}, "100");
    REQUIRE(nodes.first.wait_for_output("model.ckpt-5 ", kLimit));
    const int victim = worker_process(nodes.model_dir, 3);
    REQUIRE(victim > 0);
    REQUIRE(kill(victim, SIGKILL) == 0);
    const ProcessResult first = nodes.first.wait(kLimit);
    const ProcessResult second = nodes.second.wait(kLimit);
    CHECK(first.exit_code == 0);
    CHECK(second.exit_code == 0);
    CHECK(has(first.err, "; restart 1 of 3 in 1.0 s"));
    CHECK(hash_in(first.out).size() == 64);
    CHECK(hash_in(first.out) == hash_of_one_machine("100"));
  }

  TEST_CASE(
      "two machines: an elastic group goes on without one that is cut off, which comes again") {
    const TwoMachines machines(TwoMachines::Ssh::without);
    if (!can_run(machines)) return;
    Elastic nodes(machines, kElasticSteps, "30");
    REQUIRE(nodes.first.wait_for_output("model.ckpt-5 ", kLimit));
    machines.cut_cable();
    nodes.check_goes_on_without_node_1(std::chrono::steady_clock::now());
    machines.mend();
    const ProcessResult first = nodes.first.wait(kLimit);
    const ProcessResult second = nodes.second.wait(kLimit);
    INFO(first.err);
    INFO(second.err);
    CHECK(first.exit_code == 0);
    CHECK(second.exit_code == 0);
    CHECK(has(second.err, "node/0 (10.77.0.1:29500) is lost: no heartbeat for "));
    CHECK(has(second.out + second.err, "joined the run after step "));
    CHECK(has(first.err, "4 workers, 2 of them new, continue after step ") !=
          has(first.err, "4 workers, 1 of them new, continue after step "));
    CHECK_FALSE(has(first.err, "from the newest checkpoint"));
    CHECK(hash_in(first.out).size() == 64);
    CHECK(hash_in(first.out) == elastic_hash());
    CHECK(processes_with(nodes.model_dir).empty());
  }

  TEST_CASE("two machines: cut off in one direction alone, each way: never two groups") {
    const TwoMachines machines(TwoMachines::Ssh::without);
    if (!can_run(machines)) return;
    for (const int from : {0, 1}) {
      CAPTURE(from);
      Elastic nodes(machines, "1000000", "1");
      REQUIRE(nodes.first.wait_for_output("model.ckpt-5 ", kLimit));
      machines.cut_way(from);
      nodes.check_goes_on_without_node_1(std::chrono::steady_clock::now());
      nodes.first.signal(SIGTERM);
      const ProcessResult first = nodes.first.wait(kLimit);
      INFO(first.err);
      CHECK(first.exit_code == 143);
      const ProcessResult second = nodes.second.wait(kLimit);
      INFO(second.err);
      CHECK(second.exit_code == 138);
      CHECK(processes_with(nodes.model_dir).empty());
      machines.mend();
    }
  }

  TEST_CASE("one machine: kill -9 of a worker, and the group ends as if nothing had been") {
    const TempDir folder;
    const std::string model_dir = (folder / "model").string();
    Process process(Words{kTool, "run", "--workers", "4", "--threads", "1", "--max-restarts", "3"} +
                    mnist("100", model_dir));
    REQUIRE(process.wait_for_output("model.ckpt-5 ", kLimit));
    const int victim = worker_process(model_dir, 2);
    REQUIRE(victim > 0);
    REQUIRE(kill(victim, SIGKILL) == 0);
    const ProcessResult result = process.wait(kLimit);
    CHECK(result.exit_code == 0);
    CHECK(has(result.err, "worker/2 was killed by signal 9 (Killed) after "));
    CHECK(has(result.err, "; restart 1 of 3 in 1.0 s"));
    CHECK(hash_in(result.out).size() == 64);
    CHECK(hash_in(result.out) == hash_of_one_machine("100"));
  }
}
