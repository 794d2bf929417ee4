// The launcher's lines below the output: the states of its processes, whatever these send.
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/terminal.h"
#include "tests/support/test_prelude.h"
#include "troupe/report/progress.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject
using Frame = TerminalScreen::Frame;

bool holds(const Frame& frame, const std::string& part) {
  for (const std::string& line : frame)
    if (has(line, part)) return true;
  return false;
}

/// A shell that sends `line` to the launcher. Not every sh can write to a descriptor above 9.
std::string sends(const std::string& line) {
  return "bash -c 'printf %s \"$1\" >&$TROUPE_PROGRESS_FD' bash '" + line + "'; ";
}

troupe::Progress progress_of(int rank, std::int64_t step) {
  troupe::Progress progress;
  progress.rank = rank;
  progress.activity = troupe::Progress::Activity::training;
  progress.step = step;
  progress.total_steps = 100;
  progress.losses = {{"loss\033[2J", 0.5}};
  return progress;
}

/// Until the test, which has seen enough, makes a file.
std::string waits_for(const std::filesystem::path& file) {
  return "until [ -e " + file.string() + " ]; do sleep 0.01; done; ";
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("launch screen: the first rank's progress, every worker's state, and hostile bytes") {
    if (!has_terminals()) return;
    const TempDir folder;
    TerminalRun run(
        run_command({"--workers", "2"},
                    "echo out; echo err >&2; " + sends("\033[2J\033]0;x\007") + sends("") +
                        sends("{\"rank\":1}") + "if [ $TROUPE_RANK = 0 ]; then " +
                        sends(to_line(progress_of(0, 50))) + "else " +
                        sends(to_line(progress_of(1, 49))) + "fi; " + waits_for(folder / "seen")),
        80);
    int resized = 0;
    run.screen.on_frame = [&](const Frame& frame) {
      const bool wide = holds(frame, "] step 50 of 100, epoch 1") && holds(frame, "loss?[2J 0.5") &&
                        holds(frame, "worker/0 step 50, worker/1 step 49");
      const bool narrow =
          holds(frame, "[======      ] step 50 of 100") && holds(frame, "2 of 2 workers training");
      if (resized == 0 && wide) run.resize(30);
      if (resized == 1 && narrow) std::ofstream(folder / "seen") << "enough";
      resized += (resized == 0 && wide) || (resized == 1 && narrow) ? 1 : 0;
    };
    CHECK(run.finish() == 0);
    INFO(run.screen.text());
    CHECK(resized == 2);
    CHECK(run.screen.odd.empty());
    CHECK(count_of(run.screen.text(), "[worker/1] out\n") == 1);
    CHECK(count_of(run.screen.text(), "[worker/1] err\n") == 1);
    CHECK(!has(run.screen.text(), "step 50"));  // erased at the end
  }

  TEST_CASE("launch screen: a killed worker is lost, and red") {
    if (!has_terminals()) return;
    const TempDir folder;
    const std::string traps = (folder / "traps").string();
    // The other one takes its time to stop; it must be able to before it is told.
    TerminalRun run(
        run_command({"--workers", "2", "--grace", "1"},
                    "if [ $TROUPE_RANK = 1 ]; then " + waits_for(traps) +
                        "kill -9 $$; fi; trap '' TERM; touch " + traps + "; exec sleep 1000"),
        80);
    bool seen = false;
    run.screen.on_frame = [&](const Frame& frame) { seen = seen || holds(frame, "worker/1 lost"); };
    CHECK(run.finish() == 128 + SIGKILL);
    CHECK(seen);
    CHECK(run.screen.colors);
    CHECK(has(run.screen.text(), "troupe: worker/1 was killed by signal 9 (Killed)"));
  }

  TEST_CASE("launch screen: a worker that is to be started again is restarting, then runs") {
    if (!has_terminals()) return;
    const TempDir folder;
    const std::string killed = (folder / "killed").string();
    TerminalRun run(
        run_command({"--workers", "2", "--ps", "1", "--restart-workers", "1"},
                    "if [ \"$TROUPE_RANK\" = 1 ] && ! [ -e " + killed + " ]; then " +
                        sends(to_line(progress_of(1, 49))) + waits_for(folder / "shown") +
                        "touch " + killed + "; kill -9 $$; fi; " + waits_for(folder / "seen")),
        80);
    std::vector<std::string> states;
    run.screen.on_frame = [&](const Frame& frame) {
      const char* const expected[] = {"worker/1 step 49", "worker/1 restarting",
                                      "worker/1 running"};
      if (states.size() == 3 || !holds(frame, expected[states.size()])) return;
      CHECK(holds(frame, "ps/0 running"));
      states.push_back(expected[states.size()]);
      if (states.size() == 1) std::ofstream(folder / "shown") << "enough";
      if (states.size() == 3) std::ofstream(folder / "seen") << "enough";
    };
    CHECK(run.finish() == 0);
    INFO(run.screen.text());
    CHECK(states.size() == 3);
  }

  TEST_CASE("launch screen: none where it is not wanted, or stderr is no terminal") {
    if (!has_terminals()) return;
    const std::string script = "echo \"[${TROUPE_PROGRESS_FD-none}]\"";
    TerminalRun unwanted(run_command({"--workers", "1", "--no-progress"}, script), 80);
    CHECK(unwanted.finish() == 0);
    CHECK(unwanted.screen.frames.empty());
    CHECK(has(unwanted.screen.text(), "[none]"));
    TerminalRun dumb(run_command({"--workers", "1"}, script), 80, {"TERM=dumb"});
    CHECK(dumb.finish() == 0);
    CHECK(dumb.screen.frames.empty());
    TerminalRun nested({"/bin/sh", "-c", "exec \"$@\" 2>/dev/null", "sh", kTool, "run", "--workers",
                        "1", "--", "/bin/sh", "-c", script},
                       80, {"TROUPE_PROGRESS_FD=5"});
    CHECK(nested.finish() == 0);
    CHECK(nested.screen.frames.empty());
    CHECK(has(nested.screen.text(), "[none]"));
  }
}
