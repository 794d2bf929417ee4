#include "troupe/core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "troupe/core/text.h"

namespace troupe {
namespace {

/// An empty variable counts as unset.
std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets any
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<TerminalSize> terminal_size(int fd) {
  if (isatty(fd) != 1 || variable("TERM") == "dumb") return std::nullopt;
  const pid_t foreground = tcgetpgrp(fd);  // -1: not the terminal that controls this process
  if (foreground >= 0 && foreground != getpgrp()) return std::nullopt;
  winsize window{};
  TerminalSize size;
  if (ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0)
    size = {window.ws_col, window.ws_row};
  return size;
}

bool wants_colors() { return variable("NO_COLOR").empty(); }

std::string drawn_below(const std::vector<std::string>& lines, const TerminalSize& size) {
  const std::size_t shown =
      std::min(lines.size(), static_cast<std::size_t>(std::max(size.rows - 2, 0)));
  if (shown == 0) return "";
  // Without wrapping: between measuring and drawing the window may have become narrower.
  std::string bytes = "\033[?7l";
  for (std::size_t i = 0; i < shown; ++i) bytes += "\r\n" + lines[i];
  return bytes + text("\033[?7h\r\033[", shown, "A");
}

}  // namespace troupe
