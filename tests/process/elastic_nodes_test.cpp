// Elastic groups on several nodes through the real command line: who writes the model directory,
// and who cannot. The nodes are on this machine; machines_test.cpp has two.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/caught.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "tests/support/worker_process.h"

namespace elastic_nodes_test {

using nlohmann::json;
using namespace troupe::testing;  // NOLINT: a test

namespace {

const Words kNet = {kBuild + "/tests/process/trainings",
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
                    "60"};

/// Everything that a run ends with and that losses must not change.
json ending_of(const json& all) {
  json ending;
  for (const char* key : {"parameter_hash", "train", "validation", "test", "global_step"}) {
    ending[key] = all.at(key);
  }
  return ending;
}

/// The chief's last line; null: there is none.
json summary_in(const std::string& out) {
  const std::size_t at = out.rfind("] {\"");
  if (at == std::string::npos) return {};
  return json::parse(out.substr(at + 2, out.find('\n', at) - at - 2));
}

/// A group of 1 + 2 workers, each node with a working directory of its own, in which `model_dir` is
/// found.
struct Nodes {
  explicit Nodes(const std::string& model_dir) {
    REQUIRE(run_process({kBuild + "/troupe", "secret", secret}).exit_code == 0);
    for (const char* node : {"0", "1"}) std::filesystem::create_directory(folder / node);
    command = kNet + Words{"--save-every", "5", "--model-dir", model_dir};
  }
  [[nodiscard]] Process start(int node) const {
    const std::string number = std::to_string(node);
    return Process(
        Words{kBuild + "/troupe", "run", "--nodes", "2", "--node", number, "--rendezvous",
              rendezvous, "--secret-file", secret, "--workers", node == 0 ? "1" : "2",
              "--min-workers", "1", "--max-restarts", "4", "--threads", "1", "--"} +
            command,
        {{{"NODES_OF", secret}}, {}, (folder / number).string()});
  }
  void kill_worker(int rank) const {
    const int victim = worker_process(kNet[0], rank, "NODES_OF=" + secret);
    REQUIRE(victim > 0);
    REQUIRE(kill(victim, SIGKILL) == 0);
  }

  TempDir folder;
  std::string secret = (folder / "secret").string();
  std::string rendezvous = "127.0.0.1:" + std::to_string(free_port());
  Words command;
};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE(
      "elastic nodes: the chief's node has no other worker, and one of another node is chief") {
    const TempDir shared;
    const Nodes nodes((shared / "model").string());
    Process second = nodes.start(1);
    Process first = nodes.start(0);
    REQUIRE(first.wait_for_output(" step = 20", kLimit));
    nodes.kill_worker(0);
    REQUIRE(second.wait_for_output("saved ", kLimit));  // the first save of the new chief
    const ProcessResult zero = first.wait(kLimit);
    const ProcessResult one = second.wait(kLimit);
    INFO(zero.err);
    INFO(one.err);
    CHECK(zero.exit_code == 0);
    CHECK(one.exit_code == 0);
    CHECK(has(zero.err, "round 2: 2 workers continue after step "));
    CHECK_FALSE(has(zero.err, "from the newest checkpoint"));
    CHECK(ending_of(summary_in(one.out)) == ending_of(summary(run_on(1, kNet))));
    CHECK(processes_with(nodes.secret).empty());
  }

  TEST_CASE("elastic nodes: who does not see the model directory is no chief") {
    const Nodes nodes("model");  // each node has its own
    Process second = nodes.start(1);
    Process first = nodes.start(0);
    REQUIRE(first.wait_for_output(" step = 20", kLimit));
    nodes.kill_worker(0);
    const ProcessResult zero = first.wait(kLimit);
    const ProcessResult one = second.wait(kLimit);
    INFO(zero.err);
    INFO(one.err);
    CHECK(zero.exit_code == 0);
    CHECK(one.exit_code == 0);
    CHECK(has(zero.err, "no worker is left that sees the model directory of the run; restart 1 "));
    CHECK(has(zero.err, "resuming at step "));
    CHECK(ending_of(summary_in(zero.out)) == ending_of(summary(run_on(1, kNet))));
    CHECK_FALSE(std::filesystem::exists(nodes.folder / "1" / "model"));
    CHECK(processes_with(nodes.secret).empty());
  }
}

}  // namespace elastic_nodes_test
