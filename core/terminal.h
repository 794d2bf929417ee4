// Terminal: a few lines that stay below what scrolls. The cursor waits on an empty line above them,
// so what another part of the process, or another program, prints without knowing of them loses
// nothing and leaves nothing behind; and drawing them again needs no memory of where they were,
// also after the window was resized.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// Of the terminal behind `fd`, as it is now. Unset: there is none, it moves no cursor (TERM=dumb),
/// or another program has it (this one runs in the background).
[[nodiscard]] std::optional<TerminalSize> terminal_size(int fd);
/// Unless NO_COLOR is set and not empty.
[[nodiscard]] bool wants_colors();

/// Erases the lines below the cursor; before anything that is to scroll, and before drawing anew.
inline constexpr std::string_view kEraseBelow = "\r\033[J";
/// What draws `lines` below the cursor and returns to it; empty where there are none. Each is
/// narrower than the terminal; those that do not fit its height are left out.
[[nodiscard]] std::string drawn_below(const std::vector<std::string>& lines,
                                      const TerminalSize& size);

/// Lines below this process's log on stderr: log lines are written above them (core/log.h).
/// Replaces those before; empty: none. Where stderr is no terminal nothing is drawn. Any thread may
/// call.
void set_status_lines(std::vector<std::string> lines);

}  // namespace troupe
