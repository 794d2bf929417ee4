// Lines below the log: what a terminal is sent, and that nothing else is sent any.
#include "troupe/core/terminal.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/terminal.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/log.h"
#include "troupe/core/unique_fd.h"

namespace terminal_test {

using troupe::drawn_below;
using troupe::set_status_lines;
using troupe::TerminalSize;
using troupe::UniqueFd;
using troupe::testing::TerminalScreen;

namespace {

/// While it lives, stderr is a terminal of 40 columns.
class TerminalLog {
 public:
  TerminalLog() : before_(dup(STDERR_FILENO)) {
    setenv("TERM", "xterm", 1);
    winsize size{};
    size.ws_col = 40;
    size.ws_row = 5;
    int master = -1;
    int slave = -1;
    REQUIRE(openpty(&master, &slave, nullptr, nullptr, &size) == 0);
    master_ = UniqueFd(master);
    const UniqueFd terminal(slave);
    std::fflush(stderr);
    dup2(terminal.get(), STDERR_FILENO);
    fcntl(master_.get(), F_SETFL, O_NONBLOCK);  // NOLINT
    troupe::configure_log(troupe::LogLevel::info, "");
  }
  ~TerminalLog() {
    set_status_lines({});
    troupe::configure_log(troupe::LogLevel::warning, "");
    dup2(before_.get(), STDERR_FILENO);
  }
  TerminalLog(const TerminalLog&) = delete;
  TerminalLog& operator=(const TerminalLog&) = delete;
  /// What is shown by now.
  std::string text() {
    char buffer[4096];
    for (ssize_t count = 0; (count = read(master_.get(), buffer, sizeof buffer)) > 0;)
      screen.feed(std::string(buffer, static_cast<std::size_t>(count)));
    return screen.text();
  }

  TerminalScreen screen{40};

 private:
  UniqueFd before_;
  UniqueFd master_;
};

bool ends_with(const std::string& whole, const std::string& end) {
  return whole.size() >= end.size() &&
         whole.compare(whole.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("terminal: lines are drawn below the cursor, which returns, as many as there is room") {
    CHECK(drawn_below({}, {80, 24}).empty());
    CHECK(drawn_below({"one", "two"}, {80, 24}) == "\033[?7l\r\none\r\ntwo\033[?7h\r\033[2A");
    CHECK(drawn_below({"one", "two"}, {80, 3}) == "\033[?7l\r\none\033[?7h\r\033[1A");
    CHECK(drawn_below({"one", "two"}, {80, 2}).empty());
  }

  TEST_CASE("terminal: log lines are written above the lines below") {
    if (!troupe::testing::has_terminals()) return;
    TerminalLog log;
    set_status_lines({"[==  ]", "loss 1"});
    CHECK(log.text() == "\n[==  ]\nloss 1\n");
    troupe::log_debug("too fine to be shown");
    troupe::log_warning("from anywhere, and longer than the terminal is wide");
    CHECK(ends_with(log.text(),
                    " W from anywhere, and longer than the terminal is wide\n\n[==  ]\nloss 1\n"));
    std::fputs("of another\n", stderr);  // who knows nothing of the lines
    set_status_lines({"[=== ]"});
    CHECK(ends_with(log.text(), "wide\nof another\n\n[=== ]\n"));
    set_status_lines({});
    CHECK(ends_with(log.text(), "wide\nof another\n\n"));
    CHECK(log.screen.odd.empty());
  }

  TEST_CASE("terminal: a file, and a terminal that moves no cursor, are sent log lines alone") {
    {
      const troupe::testing::CapturedLog captured;
      set_status_lines({"[==  ]"});
      troupe::log_warning("a line");
      set_status_lines({});
      const std::string text = captured.text();
      CHECK(ends_with(text, " W a line\n"));
      CHECK(text.find_first_of("\033\r") == std::string::npos);
    }
    if (!troupe::testing::has_terminals()) return;
    TerminalLog log;
    CHECK(troupe::terminal_size(STDERR_FILENO)->columns == 40);
    setenv("TERM", "dumb", 1);
    CHECK_FALSE(troupe::terminal_size(STDERR_FILENO));
    set_status_lines({"[==  ]"});
    CHECK(log.text().empty());
    setenv("TERM", "xterm", 1);
    CHECK_FALSE(troupe::terminal_size(-1));
  }

  TEST_CASE("terminal: NO_COLOR") {
    unsetenv("NO_COLOR");
    CHECK(troupe::wants_colors());
    setenv("NO_COLOR", "", 1);
    CHECK(troupe::wants_colors());
    setenv("NO_COLOR", "1", 1);
    CHECK_FALSE(troupe::wants_colors());
    unsetenv("NO_COLOR");
  }
}

}  // namespace terminal_test
