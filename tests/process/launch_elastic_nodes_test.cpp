// troupe run --min-workers on several nodes: workers, launchers and whole nodes are lost, and come
// again. All nodes are on this machine; machines_test.cpp has two.
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <string>

#include "tests/process/launch_support.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/worker_process.h"

namespace launch_elastic_nodes_test {

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject
using Words = std::vector<std::string>;

const Words kRestarting = {"--min-workers", "1", "--max-restarts", "9"};

/// Two workers on each of two nodes: worker/0 and worker/1, worker/2 and worker/3.
struct TwoNodes {
  explicit TwoNodes(std::string faults, std::string round = "1") : variables(marker.options()) {
    REQUIRE(run_process({kTool, "secret", secret}).exit_code == 0);
    variables.set["ELASTIC_FAULTS"] = std::move(faults);
    variables.set["ELASTIC_FOLDER"] = folder.path().string();
    variables.set["ELASTIC_STEPS"] = "100";
    variables.set["ELASTIC_ROUND"] = std::move(round);
    variables.set["ELASTIC_UNTIL"] = "4";
  }
  [[nodiscard]] Words words(int node, const Words& more) const {
    Words all = {
        kTool,          "run",      "--nodes",       "2",    "--node",    std::to_string(node),
        "--rendezvous", rendezvous, "--secret-file", secret, "--workers", "2"};
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"--", TROUPE_ELASTIC_WORKER, "--model-dir", folder.path().string()});
    return all;
  }
  [[nodiscard]] Process start(int node, const Words& more = kRestarting) const {
    return Process(words(node, more), variables);
  }

  TempDir folder;
  Marker marker;
  std::string secret = (folder / "secret").string();
  std::string rendezvous = "127.0.0.1:" + std::to_string(free_port());
  ProcessOptions variables;
};

struct BothEnds {
  ProcessResult zero, one;
};

/// Both launchers, until they have ended.
BothEnds run_both(const TwoNodes& two, const Words& more = kRestarting) {
  Process second = two.start(1, more);
  Process first = two.start(0, more);
  BothEnds ends;
  ends.zero = first.wait();
  ends.one = second.wait();
  CHECK(two.marker.alive() == 0);
  return ends;
}

/// Both launchers know that a loss does not end the group any more: a worker of theirs has said so.
void wait_until_started(Process& first, Process& second) {
  REQUIRE(first.wait_for_output("[worker/0] holds the state"));
  REQUIRE(second.wait_for_output("[worker/3] holds the state"));
}

/// All four trained to the same end, and counted every step once.
void check_all_ended_well(const ProcessResult& zero, const ProcessResult& one) {
  CAPTURE(zero.err);
  CAPTURE(one.err);
  CHECK(zero.exit_code == 0);
  CHECK(one.exit_code == 0);
  const long long step = ended_after(zero.out, "worker/0");
  CHECK(step >= 100);
  CHECK(ended_after(zero.out, "worker/1") == step);
  for (const char* worker : {"worker/2", "worker/3"}) CHECK(ended_after(one.out, worker) == step);
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("elastic nodes: a killed worker of any node is replaced while the others go on") {
    for (const std::string lost : {"3", "0"}) {
      CAPTURE(lost);
      const auto [zero, one] = run_both(TwoNodes("kill " + lost + " 20"));
      check_all_ended_well(zero, one);
      CHECK(has(zero.err, (lost == "0" ? "worker/0" : "worker/3 on node/1") +
                              std::string(" was killed by signal 9 (Killed) after ")));
      CHECK(has(zero.err, "; it is started again (1 of 9).\n"));
      CHECK(has(zero.err, "troupe: round 2: 3 workers continue after step 19; training stood "));
      CHECK(has(zero.err, "troupe: round 3: 4 workers, 1 of them new, continue after step "));
    }
  }

  TEST_CASE("elastic nodes: all workers of one node are lost at once, and come again") {
    for (const std::string faults : {"kill 0 20;kill 1 20", "kill 2 20;kill 3 20"}) {
      CAPTURE(faults);
      const auto [zero, one] = run_both(TwoNodes(faults));
      check_all_ended_well(zero, one);
      CHECK(has(zero.err, "; it is started again (2 of 9).\n"));
      CHECK_FALSE(has(zero.err, "from the newest checkpoint"));
    }
  }

  TEST_CASE("elastic nodes: when all that hold the state are lost, all nodes start again") {
    const auto [zero, one] = run_both(TwoNodes("kill 0 20;kill 1 20;kill 2 20;kill 3 20"));
    check_all_ended_well(zero, one);
    CHECK(has(zero.err, "; restart 1 of 9 in 1.0 s, from the newest checkpoint.\n"));
  }

  TEST_CASE("elastic nodes: a stopped worker of another node is killed before the others go on") {
    const auto [zero, one] = run_both(TwoNodes("stop 3 20"));
    check_all_ended_well(zero, one);
    CHECK(has(zero.err, "worker/3 gave no sign of life for 0.5 s; it is killed.\n"));
  }

  TEST_CASE(
      "elastic nodes: a failure of its own ends all, and so does a loss before the first step") {
    const BothEnds broken = run_both(TwoNodes("exit 3 20"));
    CAPTURE(broken.zero.err);
    CHECK(broken.zero.exit_code == 7);
    CHECK(has(broken.zero.err, "worker/3 exited with code 7 after "));
    CHECK(broken.one.exit_code == 7);
    const BothEnds early = run_both(TwoNodes("kill 3 1"), {"--min-workers", "1"});
    CAPTURE(early.zero.err);
    CHECK(early.zero.exit_code == 137);
    CHECK_FALSE(has(early.zero.err, "round 2"));
    CHECK(early.one.exit_code == 137);
  }

  TEST_CASE(
      "elastic nodes: a launcher is killed, the others wait until its workers must have ended") {
    const TwoNodes two("", "3");
    Process second = two.start(1);
    Process first = two.start(0);
    wait_until_started(first, second);
    const auto killed = std::chrono::steady_clock::now();
    second.signal(SIGKILL);
    REQUIRE(first.wait_for_output("round 2: 2 workers continue after step "));
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - killed;
    CHECK(waited.count() > 3);  // the node was heard a second ago at most, and its lease is 4.5 s
    Process again = two.start(1);
    const ProcessResult zero = first.wait();
    const ProcessResult one = again.wait();
    check_all_ended_well(zero, one);
    CHECK(has(zero.err, "node/1 (127.0.0.1:"));
    CHECK(has(zero.err, ") is lost: "));
    CHECK(has(zero.err, "round 3: 4 workers, 2 of them new, continue after step ") !=
          has(zero.err, "round 4: 4 workers, 1 of them new, continue after step "));
    CHECK(two.marker.alive() == 0);
  }

  TEST_CASE(
      "elastic nodes: a launcher is stopped, its workers end by their lease, and come again") {
    const TwoNodes two("", "3");
    Process second = two.start(1);
    Process first = two.start(0);
    wait_until_started(first, second);
    second.signal(SIGSTOP);
    REQUIRE(first.wait_for_output("round 2: 2 workers continue after step "));
    // A zombie has no environment: what is left of node 1 are launcher and guard.
    CHECK(two.marker.alive() == 6);
    second.signal(SIGCONT);
    const ProcessResult zero = first.wait();
    const ProcessResult one = second.wait();
    check_all_ended_well(zero, one);
    CHECK(has(one.err, "node/0 (127.0.0.1:"));
    CHECK(has(one.err, "; the workers here end.\n"));
    CHECK(two.marker.alive() == 0);
  }

  TEST_CASE("elastic nodes: without node 0's launcher all end with 138") {
    const TwoNodes two("", "99");
    const Words options = {"--min-workers", "1", "--regroup-secs", "1"};
    Process second = two.start(1, options);
    Process first = two.start(0, options);
    wait_until_started(first, second);
    first.signal(SIGKILL);
    const ProcessResult one = second.wait();
    CAPTURE(one.err);
    CHECK(one.exit_code == 138);
    CHECK(has(one.err, "did not start the group within 1 s (limit --regroup-secs)"));
    CHECK(two.marker.falls_to(0));
  }

  TEST_CASE("elastic nodes: a signal to node 1 takes it out, one to node 0 saves and stops all") {
    const TwoNodes two("", "99");
    Process second = two.start(1);
    Process first = two.start(0);
    wait_until_started(first, second);
    second.signal(SIGTERM);
    const ProcessResult left = second.wait();
    CAPTURE(left.err);
    CHECK(left.exit_code == 143);
    CHECK(count_of(left.out, "] left after step ") == 2);
    REQUIRE(first.wait_for_output(" workers continue after step "));
    Process again = two.start(1);
    REQUIRE(again.wait_for_output("[worker/2] round "));
    REQUIRE(again.wait_for_output("[worker/3] round "));
    first.signal(SIGTERM);
    const ProcessResult zero = first.wait();
    const ProcessResult one = again.wait();
    CAPTURE(zero.err);
    CAPTURE(one.err);
    CHECK(zero.exit_code == 143);
    CHECK(one.exit_code == 143);
    CHECK(has(zero.err, "got signal 15; it leaves the group.\n"));
    CHECK_FALSE(has(left.err + zero.err, "was killed by signal"));
    CHECK(has(zero.err, "worker/2 is started again (1 of 9).\n"));  // it had cost none before
    CHECK(count_of(zero.out + one.out, "] saved step ") == 4);
    CHECK_FALSE(has(zero.err + one.err, "did not stop in time"));
    CHECK(two.marker.alive() == 0);
  }

  TEST_CASE("elastic nodes: options that do not fit are refused") {
    const TwoNodes two("");
    {
      Process second = two.start(1, {});
      Process first = two.start(0, {"--min-workers", "1", "--start-timeout", "2"});
      const ProcessResult one = second.wait();
      CHECK(one.exit_code == 2);
      CHECK(has(one.err, "node/1 lacks --min-workers, which node/0 has."));
      CHECK(first.wait().exit_code == 138);
    }
    const auto [zero, one] = run_both(two, {"--min-workers", "5"});
    CHECK(zero.exit_code == 2);
    CHECK(has(zero.err, "--min-workers is 5, but the nodes have 4 workers."));
    CHECK(one.exit_code == 2);
  }
}

}  // namespace launch_elastic_nodes_test
