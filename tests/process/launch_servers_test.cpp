// `troupe run --ps M`: parameter servers beside the workers, and who may end how.
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/launcher/run/launch_options.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

/// Pipes in a folder of their own. A shell that reads one waits until somebody writes to it.
class Gates {
 public:
  [[nodiscard]] std::string path(const std::string& name) const {
    const std::string file = (folder_ / name).string();
    mkfifo(file.c_str(), 0600);  // it may be there
    return file;
  }
  void open(const std::string& name) const { std::ofstream(path(name)) << "go\n"; }
  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  [[nodiscard]] std::string wait(const std::string& name) const {
    return "read go < " + path(name) + "; ";
  }
  /// For shells, to open a gate for another one.
  [[nodiscard]] std::string pass(const std::string& name) const {
    return "echo go > " + path(name) + "; ";
  }

 private:
  TempDir folder_;
};

/// A script by role: what the servers do, what the chief does, and what worker 1, 2, ... do.
std::string roles(const std::string& server, const std::string& chief, const std::string& worker) {
  return "case \"$TROUPE_TASK$TROUPE_RANK\" in ps:*) " + server + ";; 0) " + chief + ";; *) " +
         worker + ";; esac";
}

/// Acts as a process that notices a lost peer: it ends with 138 as soon as `gate` opens.
std::string notices(const Gates& gates, const std::string& gate) {
  return gates.wait(gate) + "echo lost; exit 138";
}

std::vector<std::string> with(std::vector<std::string> options,
                              const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

const std::vector<std::string> kThreeAndOne = {"--workers", "3", "--ps", "1"};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("launch options: --ps and --restart-workers") {
    const auto parse = [](const std::vector<std::string>& options) {
      return troupe::parse_launch_options(with(options, {"--", "true"}));
    };
    CHECK(parse({"--workers", "2"}).servers == 0);
    const troupe::LaunchOptions options = parse(with(kThreeAndOne, {"--restart-workers", "4"}));
    CHECK(options.workers == 3);
    CHECK(options.servers == 1);
    CHECK(options.restarts == 4);
    CHECK_THROWS_AS((void)parse({"--ps", "1"}), troupe::ConfigError);
    CHECK_THROWS_AS((void)parse({"--workers", "1", "--ps", "257"}), troupe::ConfigError);
    CHECK_THROWS_AS((void)parse({"--workers", "1", "--ps", "x"}), troupe::ConfigError);
    CHECK_THROWS_AS((void)parse({"--workers", "2", "--restart-workers", "1"}), troupe::ConfigError);
    CHECK(has(troupe::launch_help(), "--restart-workers N"));
  }

  TEST_CASE("troupe run --ps: what a server sees, and a socket that listens before anyone starts") {
    const TempDir folder;
    // Every worker connects to both servers at once, whether these have come that far or not.
    const std::string connects =
        "import os, socket\n"
        "role = os.environ.get('TROUPE_TASK', 'worker ' + os.environ.get('TROUPE_RANK', ''))\n"
        "servers = os.environ['TROUPE_SERVERS'].split(',')\n"
        "if role.startswith('ps'):\n"
        "  own = socket.socket(fileno=int(os.environ['TROUPE_LISTEN_FD']))\n"
        "  mine = '%s:%d' % own.getsockname()\n"
        "  assert mine == servers[int(role[3:])], mine\n"
        "  for _ in range(int(os.environ['TROUPE_WORLD_SIZE'])): own.accept()\n"
        "  assert os.environ['OMP_NUM_THREADS'] == '1'\n"
        "  assert 'TROUPE_RANK' not in os.environ\n"
        "else:\n"
        "  assert 'TROUPE_LISTEN_FD' not in os.environ\n"
        "  assert 'TROUPE_CHIEF_ADDRESS' not in os.environ\n"
        "  for server in servers:\n"
        "    host, port = server.split(':')\n"
        "    socket.create_connection((host, int(port)))\n"
        "print(role, 'of', len(servers))\n";
    const ProcessResult result =
        run_process({kTool, "run", "--workers", "3", "--ps", "2", "--log-dir",
                     (folder / "logs").string(), "--", "python3", "-c", connects});
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "[ps/0] ps:0 of 2\n"));
    CHECK(has(result.out, "[ps/1] ps:1 of 2\n"));
    CHECK(has(result.out, "[worker/2] worker 2 of 2\n"));
    CHECK(has(result.err, "troupe: 3 workers and 2 servers on "));
    CHECK(std::filesystem::exists(folder / "logs/ps-1.log"));
  }

  TEST_CASE("troupe run --ps: once a server has ended, whoever comes late is refused") {
    // The launcher must not hold a copy of the socket, or connections would wait in its queue.
    const std::string comes_late =
        "import os, socket, time\n"
        "if 'TROUPE_TASK' in os.environ: raise SystemExit\n"
        "host, port = os.environ['TROUPE_SERVERS'].split(':')\n"
        "limit = time.monotonic() + 10\n"
        "while time.monotonic() < limit:\n"
        "  try: socket.create_connection((host, int(port))).close()\n"
        "  except OSError:\n"
        "    print('refused')\n"
        "    break\n"
        "  time.sleep(0.01)\n";
    const ProcessResult result = run_process(
        {kTool, "run", "--workers", "1", "--ps", "1", "--", "python3", "-c", comes_late});
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "[worker/0] refused\n"));
  }

  TEST_CASE("troupe run --ps: a worker that is killed does not stop the others, and is reported") {
    const Gates gates;
    Process process(run_command(
        kThreeAndOne,
        roles(gates.wait("server"), gates.wait("chief") + "echo trained; " + gates.pass("server"),
              "if [ $TROUPE_RANK = 2 ]; then kill -9 $$; fi")));
    REQUIRE(process.wait_for_output("; training continues without it.\n"));
    gates.open("chief");
    const ProcessResult result = process.wait();
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "[worker/0] trained\n"));
    CHECK(count_of(result.err, "troupe: worker/2 was killed by signal 9 (Killed) after ") == 2);
    CHECK(has(result.err, "; training continued without it.\n"));
  }

  TEST_CASE("troupe run --ps: a worker that was declared lost ends with 138, and is reported") {
    const Gates gates;
    Process process(run_command(
        kThreeAndOne, roles(gates.wait("server"), gates.wait("chief") + gates.pass("server"),
                            "if [ $TROUPE_RANK = 1 ]; then exit 138; fi")));
    REQUIRE(process.wait_for_output("troupe: worker/1 exited with code 138 after "));
    gates.open("chief");
    const ProcessResult result = process.wait();
    CHECK(result.exit_code == 0);
    CHECK(has(result.err, "; training continued without it.\n"));
  }

  TEST_CASE("troupe run --ps: --restart-workers starts a lost worker again, so often") {
    const Gates gates;
    // Worker 1 is killed at its first two starts; it counts them in a file.
    const std::string worker = "if [ $TROUPE_RANK = 1 ]; then echo start $TROUPE_RANK; echo x >> " +
                               gates.folder() + "/starts; if [ $(wc -l < " + gates.folder() +
                               "/starts) -le 2 ]; then kill -9 $$; fi; echo joined again; " +
                               gates.pass("chief") + " fi";
    const std::string script =
        roles(gates.wait("server"), gates.wait("chief") + gates.pass("server"), worker);
    const ProcessResult result = run_process(run_command(
        with(kThreeAndOne, {"--restart-workers", "2", "--log-dir", gates.folder() + "/logs"}),
        script));
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(count_of(result.out, "[worker/1] start 1\n") == 3);
    CHECK(has(result.out, "[worker/1] joined again\n"));
    CHECK(has(result.err, "; it is started again (1 of 2).\n"));
    CHECK(has(result.err, "; it is started again (2 of 2).\n"));
    CHECK(count_of(result.err, "; it was started again.\n") == 2);
    std::ifstream log(gates.folder() + "/logs/worker-1.log");  // all three starts are in it
    CHECK(std::string{std::istreambuf_iterator<char>(log), {}} ==
          "start 1\nstart 1\nstart 1\njoined again\n");
  }

  TEST_CASE("troupe run --ps: after its restarts, training goes on without the worker") {
    const Gates gates;
    Process process(
        run_command(with(kThreeAndOne, {"--restart-workers", "1"}),
                    roles(gates.wait("server"), gates.wait("chief") + gates.pass("server"),
                          "if [ $TROUPE_RANK = 1 ]; then kill -9 $$; fi")));
    REQUIRE(process.wait_for_output("; training continues without it.\n"));
    gates.open("chief");
    const ProcessResult result = process.wait();
    CHECK(result.exit_code == 0);
    CHECK(count_of(result.err, "; it is started again (1 of 1).\n") == 1);
  }

  TEST_CASE("troupe run --ps: a worker that fails by itself stops the group with its code") {
    const Marker marker;
    const ProcessResult result = run_process(
        run_command(with(kThreeAndOne, {"--restart-workers", "3"}),
                    roles("sleep 1000", "sleep 1000",
                          "if [ $TROUPE_RANK = 2 ]; then echo a bug; exit 7; fi; sleep 1000")),
        marker.options());
    CHECK(result.exit_code == 7);
    CHECK(has(result.err, "troupe: worker/2 exited with code 7 after "));
    CHECK(has(result.err, "  a bug\n"));
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run --ps: a server or the chief that is killed stops all, and is the culprit") {
    const Marker marker;
    for (const char* victim : {"ps/0", "worker/0"}) {
      CAPTURE(victim);
      const Gates gates;
      // The others say whom they lost before any signal reaches them. The grace period is longer
      // than the test may take.
      const bool server = std::string(victim) == "ps/0";
      const std::string dies = gates.wait("die") + "kill -9 $$";
      const std::string first = "trap 'echo got a signal' TERM; " + notices(gates, "a");
      const std::string second = "trap 'echo got a signal' TERM; " + notices(gates, "b");
      Process process(run_command({"--workers", "2", "--ps", "1", "--grace", "3000"},
                                  roles(server ? dies : first, server ? first : dies, second)),
                      marker.options());
      gates.open("die");
      gates.open("a");
      gates.open("b");
      const ProcessResult result = process.wait();
      CAPTURE(result.err);
      CHECK(result.exit_code == 128 + SIGKILL);
      CHECK(has(result.err, std::string("troupe: ") + victim + " was killed by signal 9 (Killed)"));
      CHECK(count_of(result.out, "] lost\n") == 2);
      CHECK(!has(result.out, "got a signal"));
      CHECK(!has(result.err, "continues without it"));
      CHECK(marker.alive() == 0);
    }
  }

  TEST_CASE("troupe run --ps: those who do not notice a lost server are stopped") {
    const Marker marker;
    const ProcessResult result =
        run_process(run_command(with(kThreeAndOne, {"--grace", "1"}),
                                roles("kill -9 $$", "sleep 1000", "sleep 1000")),
                    marker.options());
    CHECK(result.exit_code == 128 + SIGKILL);
    CHECK(has(result.err, "troupe: ps/0 was killed by signal 9 (Killed)"));
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run --ps: a server that fails stops the group with its code") {
    const Marker marker;
    const ProcessResult result = run_process(
        run_command(kThreeAndOne, roles("exit 3", "sleep 1000", "sleep 1000")), marker.options());
    CHECK(result.exit_code == 3);
    CHECK(has(result.err, "troupe: ps/0 exited with code 3 after "));
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run --ps: a server that hangs is named when all others lost it") {
    const Marker marker;
    const Gates gates;
    // The workers notice it first: that must not read as if they were the ones that are lost.
    const ProcessResult result =
        run_process(run_command({"--workers", "2", "--ps", "1", "--grace", "1"},
                                roles("sleep 1000", gates.wait("chief") + "exit 138",
                                      gates.pass("chief") + "exit 138")),
                    marker.options());
    CHECK(result.exit_code == 138);
    CHECK(has(result.err, "troupe: ps/0 did not end and did not answer the others"));
    CHECK(!has(result.err, "continues without it"));
    CHECK(!has(result.err, "went on without it"));
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run --ps: a server that does not end after the training is a failure") {
    const Marker marker;
    const ProcessResult result =
        run_process(run_command(with(kThreeAndOne, {"--grace", "1"}),
                                roles("trap '' TERM; sleep 1000; sleep 1000", "exit 0", "exit 0")),
                    marker.options());
    CHECK(result.exit_code == troupe::kExitFailed);
    CHECK(has(result.err, "troupe: ps/0 still runs, though training is complete; it is stopped."));
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run --ps: a worker that hangs after the training is none") {
    const Marker marker;
    const ProcessResult result = run_process(
        run_command(
            with(kThreeAndOne, {"--grace", "1"}),
            roles("exit 0", "exit 0", "if [ $TROUPE_RANK = 2 ]; then sleep 1000; fi; exit 0")),
        marker.options());
    CHECK(result.exit_code == 0);
    CHECK(has(result.err, "troupe: worker/2 still runs, though training is complete"));
    CHECK(has(result.err, "; the chief had ended well.\n"));
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run --ps: an evaluator goes on when servers and workers have ended") {
    const Gates gates;
    Process process(run_command({"--workers", "2", "--ps", "1", "--evaluator", "--grace", "1"},
                                "case \"$TROUPE_TASK$TROUPE_RANK\" in evaluator*) " +
                                    gates.wait("evaluator") +
                                    "echo evaluated $TROUPE_SERVERS;; 0) echo trained;; esac"));
    REQUIRE(process.wait_for_output("[worker/0] trained\n"));
    gates.open("evaluator");
    const ProcessResult result = process.wait();
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "[evaluator/0] evaluated\n"));
    CHECK(has(result.err, "troupe: 2 workers, 1 server and an evaluator on "));
  }

  TEST_CASE("troupe run --ps: SIGTERM and SIGINT reach the servers, too") {
    const Marker marker;
    for (const int signal : {SIGTERM, SIGINT}) {
      CAPTURE(signal);
      const std::string name = signal == SIGTERM ? "TERM" : "INT";
      Process process(
          run_command({"--workers", "2", "--ps", "1"},
                      "trap 'echo saved; exit " + std::to_string(128 + signal) + "' " + name +
                          "; sleep 1000 & echo ready $TROUPE_TASK$TROUPE_RANK.; wait"),
          marker.options());
      for (const char* line : {"ready 0.\n", "ready 1.\n", "ready ps:0.\n"})
        REQUIRE(process.wait_for_output(line));
      process.signal(signal);
      const ProcessResult result = process.wait();
      CHECK(result.exit_code == 128 + signal);
      CHECK(count_of(result.out, "saved\n") == 3);
      CHECK(!has(result.err, "instead of stopping cleanly"));
      CHECK(marker.alive() == 0);
    }
  }
}
