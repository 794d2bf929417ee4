// Log: one line per event on stderr, `2026-11-20T10:21:38.126Z I worker/1 message`.
// Implemented by spdlog, which this header hides. Any thread may call. Lines that stay below the
// log: set_status_lines in core/terminal.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "troupe/core/text.h"

namespace troupe {

enum class LogLevel { debug, info, warning, error };

/// Sets the lowest level that is written and the name of this process ("worker/1"; empty: none).
void configure_log(LogLevel lowest, const std::string& process_name);

/// From now on lines that are written go to `sink` instead of stderr, such as the log of a program
/// that Troupe is a part of: level and message, without time and name. Empty: to stderr again.
/// `sink` is called by any thread, by one at a time; it calls nothing of Troupe's, and what it
/// throws is lost, with the line.
void set_log_sink(std::function<void(LogLevel level, std::string_view message)> sink);

/// Writes one line; control characters in `message` are replaced, so that it stays one line.
void log(LogLevel level, std::string_view message);

template <class... Parts>
void log_debug(const Parts&... parts) {
  log(LogLevel::debug, text(parts...));
}
template <class... Parts>
void log_info(const Parts&... parts) {
  log(LogLevel::info, text(parts...));
}
template <class... Parts>
void log_warning(const Parts&... parts) {
  log(LogLevel::warning, text(parts...));
}
template <class... Parts>
void log_error(const Parts&... parts) {
  log(LogLevel::error, text(parts...));
}

namespace detail {

/// `message` as a line of a log: without what a terminal would obey and what would end the line,
/// and with U+FFFD for what is not UTF-8. Messages quote other processes.
[[nodiscard]] std::string log_line(std::string_view message);

/// What a program was asked to print, on stdout, which others read. Returns whether anybody reads
/// on: a reader that has closed the pipe has what it wanted.
/// Throws: EnvironmentError where the text is lost otherwise.
bool print_text(const std::string& what);

// What a destructor finds undone but cannot throw: a program that left something undone has failed,
// even if its main() returns 0.

/// Remembers `what` for run_main, which prints it and ends with kExitFailed. The first is kept.
void leave_undone(const std::string& what) noexcept;
/// What was left undone since the last call; empty: nothing.
[[nodiscard]] std::string take_left_undone();

}  // namespace detail
}  // namespace troupe
