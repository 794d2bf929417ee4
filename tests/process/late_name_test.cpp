// Processes whose names are published only after they were started, as a scheduler does it. Each
// runs in a mount namespace in which a file of the test is the hosts file.
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace late_name_test {

namespace {

using namespace troupe::testing;  // NOLINT: a test

// `words`, where `hosts` is the hosts file.
Words with_hosts(const std::string& hosts, const Words& words) {
  return Words{"unshare", "-m", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
               hosts} +
         words;
}

bool may_unshare(const std::string& hosts) {
  return run_process(with_hosts(hosts, {"true"})).exit_code == 0;
}

// The file of a new secret.
std::string secret_in(const TempDir& dir) {
  const std::string path = (dir / "secret").string();
  REQUIRE(run_process({kBuild + "/troupe", "secret", path}).exit_code == 0);
  return path;
}

// Starts a process for each of `jobs` in a cluster of these. When every one of `listening` says
// that it waits for its own name, all names are published, and all processes must end well.
void run_late(const std::vector<std::string>& jobs, const std::vector<std::string>& listening) {
  const TempDir dir;
  const std::string hosts = (dir / "hosts").string();
  std::ofstream(hosts) << "127.0.0.1 localhost\n";
  if (!may_unshare(hosts)) {
    MESSAGE("skipped: a mount namespace is not permitted here");
    return;
  }
  const std::string secret = secret_in(dir);
  const std::string port = std::to_string(free_port());
  const auto host = [](const std::string& job) { return "x-" + job + "-0.ns.svc"; };
  std::string cluster;
  for (const auto& job : jobs) {
    cluster += (cluster.empty() ? "\"" : ", \"") + job + "\": [\"" + host(job) + ":" + port + "\"]";
  }
  std::map<std::string, std::unique_ptr<Process>> running;
  for (const auto& job : jobs) {
    ProcessOptions options;
    options.set["TF_CONFIG"] = "{\"cluster\": {" + cluster + "}, \"environment\": \"cloud\", " +
                               "\"task\": {\"type\": \"" + job + "\", \"index\": 0}}";
    const Words program = {kBuild + "/examples/linear_regression", "--secret-file", secret,
                           "--max-steps", "20"};
    running[job] = std::make_unique<Process>(with_hosts(hosts, program), options);
  }
  for (const auto& job : listening) {
    CAPTURE(job);
    CHECK(running[job]->wait_for_output("waiting: the address " + host(job) + ":" + port +
                                        " of this process cannot be resolved"));
  }
  std::ofstream file(hosts, std::ios::app);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    file << "127.0.1." << i + 1 << " " << host(jobs[i]) << "\n";
  }
  file.close();
  for (const auto& [job, process] : running) {
    const ProcessResult result = process->wait(kLimit);
    CAPTURE(job);
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
  }
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("late names: workers wait for their own names as for the others'") {
    run_late({"chief", "worker"}, {"chief", "worker"});
  }

  TEST_CASE("late names: a parameter server waits for its own name") {
    run_late({"chief", "worker", "ps"}, {"ps"});  // who has servers does not listen
  }

  TEST_CASE("late names: a name that is never published ends the process, to be tried again") {
    ProcessOptions options;
    options.set["TF_CONFIG"] = R"({"cluster": {"chief": ["x-chief-0.invalid:2222"],
        "worker": ["x-worker-0.invalid:2222"]}, "task": {"type": "chief", "index": 0}})";
    const TempDir dir;
    const ProcessResult result =
        run_process({kBuild + "/examples/linear_regression", "--secret-file", secret_in(dir),
                     "--start-timeout", "1"},
                    options, kLimit);
    CAPTURE(result.err);
    CHECK(result.exit_code == 138);
    CHECK(result.err.find("error[rendezvous]: the address x-chief-0.invalid:2222 of this process "
                          "cannot be resolved") != std::string::npos);
  }
}

}  // namespace late_name_test
