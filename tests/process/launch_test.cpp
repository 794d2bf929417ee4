
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/launcher/run/launch_options.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

// Does not end at any signal that can be ignored.
const std::string kDeaf = "trap '' INT TERM HUP; echo ready $TROUPE_RANK; sleep 1000; sleep 1000";

bool both_ready(Process& process) {
  return process.wait_for_output("ready 0") && process.wait_for_output("ready 1");
}

/// Whether there is a file `path` before the limit.
bool appears(const std::string& path) {
  return troupe::testing::eventually([&] { return std::filesystem::exists(path); });
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("troupe run: how workers end, and how the launcher does") {
    const Gates gates;
    check_runs({
        // What a worker leaves behind, in its group or in a session of its own, ends with it.
        {"all end well",
         run_command({"--workers", "3"}, "sleep 1000 & setsid sleep 1000 & echo done"),
         0,
         {},
         {{"done\n", 3}}},
        {"killed by a signal",
         run_command({"--workers", "2"},
                     "if [ $TROUPE_RANK = 1 ]; then kill -SEGV $$; fi; sleep 1000"),
         128 + SIGSEGV,
         {"troupe: worker/1 was killed by signal 11 (Segmentation fault) after ",
          "it printed nothing."}},
        // Worker 1 reports a lost peer and ends; only then does worker 0, the cause, end.
        {"one that lost its peer is not taken for the cause",
         run_command({"--workers", "2"}, "if [ $TROUPE_RANK = 1 ]; then exec 3> " +
                                             gates.path("ended") +
                                             "; exit 138; fi; read nothing < " +
                                             gates.path("ended") + "; echo cause >&2; exit 5"),
         5,
         {"troupe: worker/0 exited with code 5", "  cause\n"}},
        {"when only lost peers are reported, the one that hangs is named",
         run_command(
             {"--workers", "2", "--grace", "1"},
             "if [ $TROUPE_RANK = 0 ]; then echo lost worker/1 >&2; exit 138; fi; " + kDeaf),
         138,
         {"troupe: worker/0 exited with code 138",
          "troupe: worker/1 did not end and did not answer the others"}},
        {"one that all others have lost does not get the grace period",
         run_command(
             {"--workers", "3", "--grace", "3000"},
             "if [ $TROUPE_RANK != 1 ]; then echo lost worker/1 >&2; exit 138; fi; " + kDeaf),
         138,
         {"troupe: worker/1 did not end and did not answer the others"}},
        // Worker 1 fails once worker 0 has said that it is deaf to SIGTERM.
        {"one that ignores SIGTERM is killed after the grace period",
         run_command({"--workers", "2", "--grace", "1"},
                     "if [ $TROUPE_RANK = 1 ]; then " + gates.wait("deaf") +
                         "exit 3; fi; trap '' TERM; " + gates.pass("deaf") +
                         "sleep 1000; sleep 1000"),
         3,
         {"troupe: worker/0 did not stop in time and is killed.\n",
          "troupe: worker/1 exited with code 3"}},
    });
  }

  TEST_CASE("troupe run: signals reach every worker, and what these make of them") {
    const Gates gates;
    const std::string ready = "sleep 1000 & echo ready $TROUPE_RANK; wait";
    const std::vector<std::string> both = {"ready 0", "ready 1"};
    const std::vector<std::string> two = {"--workers", "2"};
    const Parts got_it = {{"got it\n", 2}};
    const Parts saved = {{"saved\n", 2}};
    check_runs({
        {"SIGTERM",
         run_command(two, "trap 'echo got it; exit 0' TERM; " + ready),
         143,
         {},
         got_it,
         both,
         send({SIGTERM})},
        {"SIGINT",
         run_command(two, "trap 'echo got it; exit 0' INT; " + ready),
         130,
         {},
         got_it,
         both,
         send({SIGINT})},
        {"SIGHUP",
         run_command(two, "trap 'echo got it; exit 0' HUP; " + ready),
         129,
         {},
         got_it,
         both,
         send({SIGHUP})},
        {"all save and end with 143, a clean stop",
         run_command(two, "trap 'echo saved; exit 143' TERM; " + ready),
         143,
         {{"instead of stopping cleanly", 0}},
         saved,
         both,
         send({SIGTERM})},
        {"one fails while it stops",
         run_command(two, "trap 'exit $((TROUPE_RANK * 9))' TERM; " + ready),
         143,
         {"troupe: worker/1 exited with code 9 instead of stopping cleanly."},
         {},
         both,
         send({SIGTERM})},
        {"shells that do not wait die at once; the programs that they started save",
         run_command(
             two,
             "sh -c 'trap \"until grep -q Z /proc/$PPID/stat; do :; done; echo saved; exit 143\" "
             "TERM; sleep 1000 & echo "
             "ready $TROUPE_RANK; wait'; echo behind"),
         143,
         {{"behind", 0}},
         saved,
         both,
         send({SIGTERM})},
        {"shells whose programs are deaf",
         run_command(
             {"--workers", "2", "--grace", "1"},
             "sh -c 'trap \"\" TERM; echo ready $TROUPE_RANK; while :; do sleep 0.1; done'; "
             "echo behind"),
         143,
         {"troupe: worker/0 did not stop in time and is killed.\n"},
         {{"behind", 0}},
         both,
         send({SIGTERM})},
        // Another signal: the same one would be delivered once.
        {"one that comes twice at once, as of timeout, is one request",
         run_command(two, "trap 'trap \"\" INT TERM; if [ $TROUPE_RANK = 0 ]; then " +
                              gates.wait("first") + "else " + gates.wait("second") +
                              "fi; echo saved; exit 130' INT; " + ready),
         130,
         {},
         saved,
         both,
         [&](Process& launcher) {
           send({SIGINT, SIGTERM})(launcher);
           gates.open("first");
           gates.open("second");
         }},
    });
  }

  TEST_CASE("troupe run: the first failure ends the group and is shown with its last lines") {
    const Marker marker;
    const ProcessResult result = run_process(
        run_command({"--workers", "2"},
                    "if [ $TROUPE_RANK = 0 ]; then sleep 1000; fi; seq 1 12; echo bad >&2; exit 7"),
        marker.options());
    CHECK(result.exit_code == 7);
    CHECK(has(result.err, "troupe: worker/1 exited with code 7 after "));
    const std::size_t report = result.err.find("its last lines:\n");
    REQUIRE(report != std::string::npos);
    const std::string lines = result.err.substr(report);
    CHECK(count_of(lines, "\n  ") == 10);
    CHECK(has(lines, "\n  12\n"));
    CHECK(has(lines, "  bad\n"));
    CHECK(!has(lines, "\n  2\n"));
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run: a second Ctrl-C kills at once") {
    const Marker marker;
    Process process(run_command({"--workers", "2", "--grace", "3000"}, kDeaf), marker.options());
    REQUIRE(both_ready(process));
    process.signal(SIGINT);
    REQUIRE(process.wait_for_output("troupe: interrupted; the workers have 3000.0 s to stop"));
    poll(nullptr, 0, 150);  // longer than what counts as one request
    process.signal(SIGINT);
    const ProcessResult result = process.wait();
    CHECK(!result.timed_out);
    CHECK(result.exit_code == 130);
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run: a worker that is stopped (SIGSTOP) still gets to act on SIGTERM") {
    const Marker marker;
    Process process(run_command({"--workers", "2", "--grace", "3000"},
                                "trap 'echo saved; exit 0' TERM; kill -STOP $$; sleep 1000"),
                    marker.options());
    REQUIRE(marker.rises_to_stopped(2));
    process.signal(SIGTERM);
    const ProcessResult result = process.wait();
    CHECK(!result.timed_out);
    CHECK(result.exit_code == 143);
    CHECK(count_of(result.out, "saved\n") == 2);
  }

  TEST_CASE("troupe run: nothing survives a launcher killed with SIGKILL") {
    const Marker marker;
    Process process(run_command({"--workers", "2"},
                                "sleep 1000 & (sleep 1000; echo) & echo ready $TROUPE_RANK; wait"),
                    marker.options());
    REQUIRE(both_ready(process));
    // The launcher, its guard, and of each worker a shell, its sleep and the sub-shell at least.
    CHECK(marker.alive() >= 8);
    process.signal(SIGKILL);
    CHECK(process.wait().exit_code == 128 + SIGKILL);
    CHECK(marker.falls_to(0));
  }

  TEST_CASE("troupe run: a slow reader gets everything, also after the workers ended") {
    const TempDir folder;
    const std::string done = (folder / "done").string();
    // More than the launcher and its reader's pipe keep (1 MiB and 64 KiB), less than that and the
    // worker's pipe: the worker ends while nobody reads, and its own pipe still holds a part.
    Process process({kTool, "run", "--workers", "1", "--no-prefix", "--", "/bin/sh", "-c",
                     "yes 123456789012345 | head -c 1152000; : > " + done});
    REQUIRE(appears(done));
    poll(nullptr, 0, 2500);  // longer than the launcher waits for the output of an ended worker
    const ProcessResult result = process.wait();
    CHECK(result.exit_code == 0);
    CHECK(count_of(result.out, "123456789012345\n") == 72'000);
  }

  TEST_CASE("troupe run: a reader that stops reading does not keep the group alive") {
    const Marker marker;
    // More than pipes and the launcher keep; the worker cannot get rid of it before it is stopped.
    Process process(run_command({"--workers", "1", "--grace", "3000"},
                                "trap 'exit 143' TERM; (echo ready; yes) | head -c 100000000 & "
                                "wait; wait"),
                    marker.options());
    REQUIRE(process.wait_for_output("ready\n"));
    REQUIRE(marker.stands_still());  // from here on nobody reads, and nothing moves any more
    process.signal(SIGTERM);
    CHECK(marker.falls_to(2));  // the launcher, which has output left to deliver, and its guard
    poll(nullptr, 0, 150);      // longer than what counts as one request
    process.signal(SIGTERM);    // and ends without it when it is told to
    CHECK(marker.falls_to(0));
    CHECK(process.wait().exit_code == 143);
  }

  TEST_CASE("troupe run: told twice, it does not wait for a reader either, and still reports") {
    const Marker marker;
    const TempDir folder;
    const std::string told = (folder / "told").string();
    Process process(
        run_command({"--workers", "2", "--grace", "3000"},
                    "if [ $TROUPE_RANK = 1 ]; then trap 'exit 9' TERM; sleep 1000 & wait; fi; "
                    "trap ': > " +
                        told +
                        "' TERM; "
                        "(trap '' TERM; (echo ready; yes) | head -c 100000000) & "
                        "while :; do wait; done"),
        marker.options());
    REQUIRE(process.wait_for_output("ready\n"));
    REQUIRE(marker.stands_still());
    const int alive = marker.alive();
    process.signal(SIGTERM);
    REQUIRE(appears(told));
    REQUIRE(marker.falls_to(alive - 2));  // without worker/1 and its sleep
    poll(nullptr, 0, 150);                // longer than what counts as one request
    process.signal(SIGTERM);              // while worker/0, which stays, still has its grace period
    CHECK(marker.falls_to(0));
    const ProcessResult result = process.wait();
    CHECK(result.exit_code == 143);
    CHECK(has(result.err, "troupe: worker/1 exited with code 9 instead of stopping cleanly."));
  }
}
