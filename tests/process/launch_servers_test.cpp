// `troupe run --ps M`: parameter servers beside the workers, and who may end how.
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
        "limit = time.monotonic() + 60\n"
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

  TEST_CASE("troupe run --ps: whose end stops whom, and who is named") {
    const Gates gates;
    const auto ends = [&](const std::string& name) {
      return gates.wait(name + "-chief") + gates.pass(name + "-server");
    };
    const auto serves = [&](const std::string& name) { return gates.wait(name + "-server"); };
    const std::vector<std::string> hasty = with(kThreeAndOne, {"--grace", "1"});
    check_runs({
        {"a killed worker does not stop the others, and is reported",
         run_command(kThreeAndOne, roles(serves("kill"), ends("kill") + "echo trained",
                                         "if [ $TROUPE_RANK = 2 ]; then kill -9 $$; fi")),
         0,
         {{"troupe: worker/2 was killed by signal 9 (Killed) after ", 2},
          "; training continued without it.\n"},
         {"[worker/0] trained\n"},
         {"; training continues without it.\n"},
         open(gates, "kill-chief")},
        {"a worker that was declared lost ends with 138, and is reported",
         run_command(kThreeAndOne, roles(serves("lost"), ends("lost"),
                                         "if [ $TROUPE_RANK = 1 ]; then exit 138; fi")),
         0,
         {"; training continued without it.\n"},
         {},
         {"troupe: worker/1 exited with code 138 after "},
         open(gates, "lost-chief")},
        {"after its restarts, training goes on without the worker",
         run_command(
             with(kThreeAndOne, {"--restart-workers", "1"}),
             roles(serves("again"), ends("again"), "if [ $TROUPE_RANK = 1 ]; then kill -9 $$; fi")),
         0,
         {{"; it is started again (1 of 1).\n", 1}},
         {},
         {"; training continues without it.\n"},
         open(gates, "again-chief")},
        {"a worker that fails by itself stops the group with its code",
         run_command(with(kThreeAndOne, {"--restart-workers", "3"}),
                     roles("sleep 1000", "sleep 1000",
                           "if [ $TROUPE_RANK = 2 ]; then echo a bug; exit 7; fi; sleep 1000")),
         7,
         {"troupe: worker/2 exited with code 7 after ", "  a bug\n"}},
        {"those who do not notice a lost server are stopped",
         run_command(hasty, roles("kill -9 $$", "sleep 1000", "sleep 1000")),
         128 + SIGKILL,
         {"troupe: ps/0 was killed by signal 9 (Killed)"}},
        {"a server that fails stops the group with its code",
         run_command(kThreeAndOne, roles("exit 3", "sleep 1000", "sleep 1000")),
         3,
         {"troupe: ps/0 exited with code 3 after "}},
        // The workers notice it first: that must not read as if they were the ones that are lost.
        {"a server that hangs is named when all others lost it",
         run_command(
             {"--workers", "2", "--ps", "1", "--grace", "1"},
             roles("sleep 1000", gates.wait("hang") + "exit 138", gates.pass("hang") + "exit 138")),
         138,
         {"troupe: ps/0 did not end and did not answer the others",
          {"continues without it", 0},
          {"went on without it", 0}}},
        {"a server that does not end after the training is a failure",
         run_command(hasty, roles("trap '' TERM; sleep 1000; sleep 1000", "exit 0", "exit 0")),
         troupe::kExitFailed,
         {"troupe: ps/0 still runs, though training is complete; it is stopped."}},
        {"a worker that hangs after the training is none",
         run_command(hasty, roles("exit 0", "exit 0",
                                  "if [ $TROUPE_RANK = 2 ]; then sleep 1000; fi; exit 0")),
         0,
         {"troupe: worker/2 still runs, though training is complete",
          "; the chief had ended well.\n"}},
        {"an evaluator goes on when servers and workers have ended",
         run_command({"--workers", "2", "--ps", "1", "--evaluator", "--grace", "1"},
                     "case \"$TROUPE_TASK$TROUPE_RANK\" in evaluator*) " + gates.wait("evaluator") +
                         "echo evaluated $TROUPE_SERVERS;; 0) echo trained;; esac"),
         0,
         {"troupe: 2 workers, 1 server and an evaluator on "},
         {"[evaluator/0] evaluated\n"},
         {"[worker/0] trained\n"},
         open(gates, "evaluator")},
    });
  }

  TEST_CASE("troupe run --ps: SIGTERM and SIGINT reach the servers, too") {
    for (const auto& [signal, name] : {std::pair(SIGTERM, "TERM"), {SIGINT, "INT"}}) {
      check_runs(
          {{name,
            run_command({"--workers", "2", "--ps", "1"},
                        "trap 'echo saved; exit " + std::to_string(128 + signal) + "' " + name +
                            "; sleep 1000 & echo ready $TROUPE_TASK$TROUPE_RANK.; wait"),
            128 + signal,
            {{"instead of stopping cleanly", 0}},
            {{"saved\n", 3}},
            {"ready 0.\n", "ready 1.\n", "ready ps:0.\n"},
            send({signal})}});
    }
  }
}
