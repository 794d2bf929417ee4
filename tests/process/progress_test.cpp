// What a training shows on a terminal, alone and under `troupe run`, and what it writes elsewhere.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/terminal.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace progress_test {

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject
using Words = std::vector<std::string>;

const Words kTraining = {kBuild + "/examples/mnist",
                         "--epochs",
                         "1",
                         "--train-examples",
                         "3000",
                         "--threads",
                         "1",
                         "--log-every",
                         "3"};

Words under_launcher(const Words& options, const Words& command) {
  Words all = {kBuild + "/troupe", "run"};
  all.insert(all.end(), options.begin(), options.end());
  all.push_back("--");
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

/// Whether some frame has a line with each of the parts.
bool shows(const TerminalScreen& screen, const Words& parts) {
  return std::any_of(screen.frames.begin(), screen.frames.end(), [&](const auto& frame) {
    return std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return std::any_of(frame.begin(), frame.end(), [&](const std::string& line) {
        return line.find(part) != std::string::npos;
      });
    });
  });
}

int logged_losses(const TerminalScreen& screen) {
  int logged = 0;
  for (const std::string& line : screen.lines()) {
    CHECK_MESSAGE(line.find("examples/s,") == std::string::npos, line);  // nothing of the block
    CHECK_MESSAGE(line.find("==") == std::string::npos, line);
    if (line.find(" I loss = ") != std::string::npos) ++logged;
  }
  return logged;
}

bool is_plain(const std::string& output) {
  return std::all_of(output.begin(), output.end(), [](char c) {
    return c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

}  // namespace

TEST_SUITE("progress") {
  TEST_CASE("progress: the block shares no line with the log, and never wraps") {
    if (!has_terminals()) return;
    for (const int columns : {100, 30, 5}) {
      CAPTURE(columns);
      TerminalRun run(kTraining, columns);
      CHECK(run.finish() == 0);
      INFO(run.screen.text());
      CHECK(shows(run.screen, {columns > 50 ? "] step 47 of 47, epoch 1" : "] 47/47", "loss "}) ==
            (columns > 5));
      CHECK(run.screen.clipped == 0);
      CHECK(run.screen.odd.empty());
      CHECK(logged_losses(run.screen) == 16);  // of 47 steps: 1, 3, 6 ... 45
    }
  }

  TEST_CASE("progress: two workers have one block, which --no-progress turns off") {
    if (!has_terminals()) return;
    TerminalRun run(under_launcher({"--workers", "2"}, kTraining), 100);
    CHECK(run.finish() == 0);
    INFO(run.screen.text());
    CHECK(shows(run.screen, {"] step 47 of 47, epoch 1", "examples/s"}));
    CHECK(shows(run.screen, {"worker/0 step ", "worker/1 step "}));
    CHECK(run.screen.clipped == 0);
    CHECK(run.screen.odd.empty());
    CHECK(run.screen.colors);
    CHECK(logged_losses(run.screen) == 16);
    TerminalRun uncolored(under_launcher({"--workers", "2"}, kTraining), 100, {"NO_COLOR=1"});
    CHECK(uncolored.finish() == 0);
    CHECK(!uncolored.screen.frames.empty());
    CHECK(!uncolored.screen.colors);
    TerminalRun plain(under_launcher({"--workers", "2", "--no-progress"}, kTraining), 100);
    CHECK(plain.finish() == 0);
    CHECK(plain.screen.frames.empty());
    CHECK(logged_losses(plain.screen) == 16);
  }

  TEST_CASE("progress: what the demo prints is nine lines, and ./dev one more") {
    const TempDir folder;
    const ProcessResult result = run_process(under_launcher(
        {"--workers", "2"}, {kBuild + "/examples/mnist", "--model-dir", (folder / "run").string(),
                             "--save-summary-steps", "20", "--log-every", "0", "--epochs", "3",
                             "--train-examples", "600", "--threads", "1"}));
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 9);
  }

  TEST_CASE("progress: redirected, there is no control character, alone or with two workers") {
    for (const Words& command : {kTraining, under_launcher({"--workers", "2"}, kTraining)}) {
      const ProcessResult result = run_process(command);
      CHECK(result.exit_code == 0);
      CHECK(is_plain(result.out));
      CHECK(is_plain(result.err));
      CHECK(result.err.find(" I loss = ") != std::string::npos);
    }
  }
}

}  // namespace progress_test
