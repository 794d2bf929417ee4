// CapturedLog: what a piece of code logs, for a test to look at, and not on the terminal.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>

#include "troupe/core/log.h"

namespace troupe::testing {

/// While it lives, stderr goes into a nameless file, with information lines; then warnings are
/// printed again (tests/main.cpp). One at a time.
class CapturedLog {
 public:
  CapturedLog() : file_(std::tmpfile()) {
    std::fflush(stderr);
    stderr_ = ::dup(STDERR_FILENO);
    if (file_ == nullptr || stderr_ < 0 || ::dup2(::fileno(file_), STDERR_FILENO) < 0) {
      throw std::system_error(errno, std::generic_category(), "capturing stderr");
    }
    configure_log(LogLevel::info, "");
  }
  ~CapturedLog() {
    configure_log(LogLevel::warning, "");
    std::fflush(stderr);
    ::dup2(stderr_, STDERR_FILENO);
    ::close(stderr_);
    std::fclose(file_);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  /// All lines so far.
  [[nodiscard]] std::string text() const {
    std::fflush(stderr);
    std::string content;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::pread(::fileno(file_), buffer, sizeof buffer,
                                     static_cast<off_t>(content.size()))) > 0;) {
      content.append(buffer, static_cast<std::size_t>(n));
    }
    return content;
  }
  [[nodiscard]] bool has(const std::string& part) const {
    return text().find(part) != std::string::npos;
  }
  /// How often `part` is there; " W " counts the warnings, " I " the information lines.
  [[nodiscard]] int count(const std::string& part) const {
    const std::string all = text();
    int found = 0;
    for (auto at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++found;
    return found;
  }

 private:
  std::FILE* file_;
  int stderr_ = -1;
};

}  // namespace troupe::testing
