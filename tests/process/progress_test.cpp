// The progress bar on a terminal: a small emulator reads what a program writes to one.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/terminal.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace {

/// What one program shows on a terminal of `columns`.
struct Terminal {
  explicit Terminal(int columns) : columns_(columns) {}

  /// Of "\r", "\n", ESC [ K and characters.
  void feed(const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes.compare(i, 3, "\033[K") == 0) {
        line_.resize(std::min(line_.size(), column_));
        i += 2;
      } else if (bytes[i] == '\r') {
        column_ = 0;
      } else if (bytes[i] == '\n') {
        lines.push_back(line_);
        line_.clear();
      } else {
        if (column_ >= line_.size()) line_.resize(column_ + 1, ' ');
        line_[column_++] = bytes[i];
        saw_bar = saw_bar || line_.find("===") != std::string::npos;
        const bool wide = line_.size() >= static_cast<std::size_t>(columns_);
        if (wide && line_.front() == '[') wrapped.push_back(line_);
      }
    }
  }

  std::vector<std::string> lines;    // that have ended
  std::vector<std::string> wrapped;  // parts of bars that reach the right edge
  bool saw_bar = false;

 private:
  int columns_;
  std::string line_;
  std::size_t column_ = 0;
};

Terminal run_on_terminal(std::vector<std::string> command, unsigned short columns) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  int master = -1;
  const pid_t child = forkpty(&master, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  std::string bytes;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(master, buffer, sizeof buffer)) > 0;) {
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(master);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  INFO(bytes);
  CHECK(status == 0);
  Terminal terminal(columns);
  terminal.feed(bytes);
  return terminal;
}

}  // namespace

TEST_SUITE("progress") {
  TEST_CASE("progress: the bar shares no line with the log, and never wraps") {
    if (!troupe::testing::has_terminals()) return;
    const std::vector<std::string> command = {
        troupe::testing::kMnist, "--epochs", "1", "--train-examples", "3000", "--threads", "1",
        "--log-every",           "3"};
    for (const unsigned short columns : {100, 40, 10}) {
      CAPTURE(columns);
      const Terminal terminal = run_on_terminal(command, columns);
      CHECK(terminal.saw_bar == (columns > 20));
      CHECK(terminal.wrapped.empty());
      int logged = 0;
      for (const std::string& line : terminal.lines) {
        CHECK_MESSAGE(line.find('[') == std::string::npos, line);
        if (line.find(" I loss = ") != std::string::npos) ++logged;
      }
      CHECK(logged == 16);  // of 47 steps: 1, 3, 6 ... 45
    }
  }
}
