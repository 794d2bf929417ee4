#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <string>

#include "tests/process/launch_support.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

std::string write_secret(const TempDir& folder, const std::string& name, char letter) {
  const std::string path = (folder / name).string();
  std::ofstream(path) << std::string(64, letter) << '\n';
  chmod(path.c_str(), 0600);
  return path;
}

/// Two launchers on this machine, as if it were two.
struct TwoNodes {
  TempDir folder;
  Marker marker;
  std::string secret = write_secret(folder, "secret", 'k');
  std::string rendezvous = "127.0.0.1:" + std::to_string(free_port());

  /// Two workers on node 0, one on node 1.
  [[nodiscard]] std::vector<std::string> command(int node, const std::string& script,
                                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> options = {
        "--nodes",      "2",        "--node",    std::to_string(node),
        "--rendezvous", rendezvous, "--workers", node == 0 ? "2" : "1"};
    if (std::find(more.begin(), more.end(), "--secret-file") == more.end())
      options.insert(options.end(), {"--secret-file", secret});
    options.insert(options.end(), more.begin(), more.end());
    std::vector<std::string> words = run_command(options, script);
    words.insert(words.end(), {"--model-dir", "d"});
    return words;
  }
  /// Both launchers, until they have ended with this code.
  [[nodiscard]] std::pair<ProcessResult, ProcessResult> run(
      const std::string& script, int exit_code, const std::vector<std::string>& more = {}) const {
    Process second(command(1, script, more), marker.options());
    Process first(command(0, script, more), marker.options());
    std::pair<ProcessResult, ProcessResult> ends(first.wait(), second.wait());
    CHECK(ends.first.exit_code == exit_code);
    CHECK(ends.second.exit_code == exit_code);
    CHECK(marker.alive() == 0);
    return ends;
  }
};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("troupe run --nodes: ranks by node, one group, one exit code") {
    TwoNodes two;
    const std::string script =
        "echo $TROUPE_RANK of $TROUPE_WORLD_SIZE at $TROUPE_CHIEF_ADDRESS "
        "in $TROUPE_GENERATION with ${TROUPE_LISTEN_FD:-none}";
    const auto [zero, one] = two.run(script, 0);
    REQUIRE(has(zero.out, "[worker/0] 0 of 3 at 127.0.0.1:"));
    CHECK(has(zero.out, "[worker/1] 1 of 3 at "));
    CHECK(has(one.out, "[worker/2] 2 of 3 at "));
    const auto of_all = [](const std::string& out) {  // address and generation
      return out.substr(out.find(" at "), out.find(" with ") - out.find(" at "));
    };
    CHECK(of_all(zero.out) == of_all(one.out));
    CHECK(has(one.out, " with none\n"));
  }

  TEST_CASE("troupe run --nodes: a failure on one node ends all with its code, and is named") {
    const auto [zero, one] =
        TwoNodes().run("if [ $TROUPE_RANK = 2 ]; then echo broken >&2; exit 7; fi; sleep 1000", 7);
    CHECK(has(zero.err, "): worker/2 exited with code 7 after "));
  }

  TEST_CASE("troupe run --nodes: a killed worker starts the group again on all nodes") {
    TwoNodes two;
    const std::string starts = (two.folder / "starts").string();
    // Not before all have started: those of node 0 might be stopped before they have noted it.
    const std::string script = "if [ ! -e " + starts + ".$TROUPE_RANK ]; then : > " + starts +
                               ".$TROUPE_RANK; if [ $TROUPE_RANK = 2 ]; then until [ -e " + starts +
                               ".0 ] && [ -e " + starts +
                               ".1 ]; do sleep 0.01; done; kill -9 $$; fi; "
                               "sleep 1000; fi; echo again $TROUPE_RANK";
    const auto [zero, one] = two.run(script, 0, {"--max-restarts", "3"});
    CHECK(count_of(zero.out, "] again ") == 2);
    CHECK(count_of(one.out, "] again ") == 1);
    CHECK(has(zero.err, "; restart 1 of 3 in 1.0 s, from the newest checkpoint.\n"));
  }

  TEST_CASE("troupe run --nodes: a signal to any node stops all") {
    for (const int node : {0, 1}) {
      CAPTURE(node);
      TwoNodes two;
      const std::string script = "trap 'echo saved; exit 143' TERM; sleep 1000 & echo ready; wait";
      Process second(two.command(1, script), two.marker.options());
      Process first(two.command(0, script), two.marker.options());
      REQUIRE(second.wait_for_output("[worker/2] ready"));
      REQUIRE(first.wait_for_output("[worker/1] ready"));
      REQUIRE(first.wait_for_output("[worker/0] ready"));
      (node == 0 ? first : second).signal(SIGTERM);
      const ProcessResult zero = first.wait();
      const ProcessResult one = second.wait();
      CHECK(zero.exit_code == 143);
      CHECK(one.exit_code == 143);
      CHECK(count_of(zero.out + one.out, "saved\n") == 3);
      CHECK(two.marker.alive() == 0);
    }
  }

  // As where one terminal, or one scheduler, has several launchers.
  TEST_CASE("troupe run --nodes: a signal that node 0's order outran is still the first one") {
    TwoNodes two;
    const std::string script =
        "trap 'echo got it' INT; echo ready; while :; do sleep 1000 & wait; done";
    Process second(two.command(1, script, {"--grace", "1000"}), two.marker.options());
    Process first(two.command(0, script, {"--grace", "1000"}), two.marker.options());
    REQUIRE(second.wait_for_output("[worker/2] ready"));
    REQUIRE(first.wait_for_output("[worker/0] ready"));
    REQUIRE(first.wait_for_output("[worker/1] ready"));
    first.signal(SIGINT);
    REQUIRE(second.wait_for_output("[worker/2] got it"));
    second.signal(SIGINT);
    REQUIRE(second.wait_for_output("; the workers have 1000.0 s to stop (once more: at once)."));
    poll(nullptr, 0, 150);  // longer than what counts as one request
    second.signal(SIGINT);
    first.signal(SIGINT);
    CHECK(first.wait().exit_code == 130);
    CHECK(second.wait().exit_code == 130);
    CHECK(two.marker.alive() == 0);
  }

  TEST_CASE("troupe run --nodes: a launcher that is killed ends all, and nothing is left") {
    for (const int node : {0, 1}) {
      CAPTURE(node);
      TwoNodes two;
      const std::string script = "trap '' TERM; echo ready; sleep 1000; sleep 1000";
      Process second(two.command(1, script), two.marker.options());
      Process first(two.command(0, script), two.marker.options());
      REQUIRE(second.wait_for_output("ready"));
      REQUIRE(first.wait_for_output("ready"));
      Process& killed = node == 0 ? first : second;
      Process& other = node == 0 ? second : first;
      killed.signal(SIGKILL);
      const ProcessResult result = other.wait();
      CHECK(result.exit_code == 138);
      CHECK(has(result.err, "node/" + std::to_string(node) + " (127.0.0.1:"));
      CHECK(has(result.err, ") is lost: "));
      CHECK(two.marker.falls_to(0));
    }
  }

  TEST_CASE("troupe run --nodes: another secret, another number of nodes, a node that is missing") {
    TwoNodes two;
    const std::string other = write_secret(two.folder, "other", 'x');
    {
      Process first(two.command(0, "echo ran", {"--start-timeout", "2"}));
      Process second(two.command(1, "echo ran", {"--start-timeout", "2", "--secret-file", other}));
      const ProcessResult zero = first.wait();
      const ProcessResult one = second.wait();
      CHECK(zero.exit_code == 138);
      CHECK(one.exit_code == 138);
      CHECK(has(zero.err, "error[rendezvous]: node/1 did not come"));
      CHECK_FALSE(has(zero.err, "has come"));  // nor anything else about a stranger
      CHECK(has(one.err, "error[rendezvous]: node/0 at 127.0.0.1:"));
      CHECK_FALSE(has(zero.out + one.out, "ran"));
    }
    std::vector<std::string> wrong = two.command(1, "echo ran");
    *std::find(wrong.begin(), wrong.end(), "2") = "3";  // --nodes
    Process first(two.command(0, "echo ran", {"--start-timeout", "3"}));
    const ProcessResult one = run_process(wrong);
    CHECK(one.exit_code == 2);
    CHECK(has(one.err, "node/1 was started with --nodes 3, node/0 with --nodes 2."));
    CHECK(first.wait().exit_code == 138);
  }
}
