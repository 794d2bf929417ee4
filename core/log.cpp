#include "troupe/core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/terminal.h"

namespace troupe {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

void set_pattern(spdlog::logger& logger, const std::string& process_name) {
  // A '%' in a name would be a pattern flag; doubling it keeps the name as it is.
  std::string name;
  for (const char c : process_name) name += c == '%' ? std::string("%%") : std::string(1, c);
  if (!name.empty()) name += ' ';
  logger.set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L " + name + "%v", spdlog::pattern_time_type::utc);
}

spdlog::logger& logger() {
  // The one logger of the process: stderr has one, too.
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("troupe",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    set_pattern(*made, "");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

using Sink = std::function<void(LogLevel, std::string_view)>;

std::mutex g_status_mutex;          // of the next two
std::vector<std::string> g_status;  // what the terminal shows below the log
Sink g_sink;                        // empty: stderr

std::mutex g_undone_mutex;
std::string g_undone;  // run_main, which reads it, knows none of the objects that write it

void write_bytes(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void configure_log(LogLevel lowest, const std::string& process_name) {
  logger().set_level(to_spdlog(lowest));
  set_pattern(logger(), process_name);
}

void set_log_sink(Sink sink) {
  const std::lock_guard<std::mutex> lock(g_status_mutex);
  g_sink = std::move(sink);
}

std::string detail::log_line(std::string_view message) {
  std::string line = to_utf8(std::string(message));
  unsigned char before = 0;
  for (char& c : line) {
    const auto octet = static_cast<unsigned char>(c);
    if (octet < 0x20 || octet == 0x7f) c = ' ';
    // In UTF-8 C2 80 to C2 9F are controls, too: a space that does not break.
    if (before == 0xc2 && octet >= 0x80 && octet < 0xa0) c = '\xa0';
    before = octet;
  }
  return line;
}

void log(LogLevel level, std::string_view message) {
  const std::string line = detail::log_line(message);
  const auto severity = to_spdlog(level);
  const std::lock_guard<std::mutex> lock(g_status_mutex);
  if (g_sink) {
    if (!logger().should_log(severity)) return;
    try {
      g_sink(level, line);
    } catch (...) {  // a log must not end a training
    }
    return;
  }
  const bool shown = !g_status.empty() && logger().should_log(severity);
  const auto terminal = shown ? terminal_size(STDERR_FILENO) : std::nullopt;
  if (terminal) write_bytes(kEraseBelow);
  logger().log(severity, spdlog::string_view_t(line.data(), line.size()));
  if (terminal) write_bytes(drawn_below(g_status, *terminal));
}

void set_status_lines(std::vector<std::string> lines) {
  const std::lock_guard<std::mutex> lock(g_status_mutex);
  if (g_status.empty() && lines.empty()) return;
  g_status = std::move(lines);
  const auto terminal = terminal_size(STDERR_FILENO);
  if (terminal) write_bytes(std::string(kEraseBelow) + drawn_below(g_status, *terminal));
}

}  // namespace troupe

namespace troupe::detail {

void leave_undone(const std::string& what) noexcept {
  const std::lock_guard<std::mutex> lock(g_undone_mutex);
  if (g_undone.empty()) g_undone = what;
}

std::string take_left_undone() {
  const std::lock_guard<std::mutex> lock(g_undone_mutex);
  return std::exchange(g_undone, std::string());
}

bool print_text(const std::string& what) {
  errno = 0;
  std::cout << what << std::flush;
  if (std::cout) return true;
  if (errno == EPIPE) return false;
  throw EnvironmentError(text("standard output cannot be written: ", std::strerror(errno), "."),
                         "look for a full disk or a closed descriptor.");
}

}  // namespace troupe::detail
