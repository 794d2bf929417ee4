// Terminals for tests: whether this machine has pseudo terminals, and a program that runs on one.
#pragma once

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/terminal_screen.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/clock.h"

namespace troupe::testing {

/// False, with a message in the test's output, where a test of a terminal cannot run.
inline bool has_terminals() {
  int ends[2] = {-1, -1};
  if (::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) != 0) {
    MESSAGE("skipped: no pseudo terminal can be opened here");
    return false;
  }
  for (const int end : ends) ::close(end);
  return true;
}

/// A program on a terminal of its own.
class TerminalRun {
 public:
  /// Variables "NAME=value" are added to this process's.
  TerminalRun(std::vector<std::string> command, int columns,
              const std::vector<std::string>& variables = {})
      : screen(columns) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    std::vector<std::string> whole = {"/usr/bin/env", "TERM=xterm", "NO_COLOR="};
    whole.insert(whole.end(), variables.begin(), variables.end());
    whole.insert(whole.end(), command.begin(), command.end());
    std::vector<char*> words;
    for (std::string& word : whole) words.push_back(word.data());
    words.push_back(nullptr);
    child_ = ::forkpty(&master_, nullptr, nullptr, &size);
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      ::execv(words[0], words.data());
      ::_exit(127);
    }
  }
  TerminalRun(const TerminalRun&) = delete;
  TerminalRun& operator=(const TerminalRun&) = delete;
  ~TerminalRun() { ::close(master_); }

  void resize(int columns) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    screen.resize(columns);
    CHECK(::ioctl(master_, TIOCSWINSZ, &size) == 0);
  }
  /// Reads to the end of the program. Returns its exit code; -1: a signal ended it, ours if it took
  /// longer than `limit`.
  int finish(std::chrono::milliseconds limit = std::chrono::milliseconds(60'000)) {
    const Deadline deadline = Deadline::in(limit);
    char buffer[4096];
    pollfd ready{master_, POLLIN, 0};
    while (::poll(&ready, 1, static_cast<int>(deadline.remaining().count())) > 0) {
      const ssize_t count = ::read(master_, buffer, sizeof buffer);
      if (count <= 0) break;
      screen.feed(std::string(buffer, static_cast<std::size_t>(count)));
    }
    if (deadline.expired()) ::kill(child_, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child_, &status, 0) == child_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TerminalScreen screen;

 private:
  int master_ = -1;
  pid_t child_ = -1;
};

}  // namespace troupe::testing
