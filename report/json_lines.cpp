#include "troupe/report/json_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"

namespace troupe {
namespace {

constexpr mode_t kLinesMode = 0644;

enum class Ending { nothing, whole_line, torn_line };

/// A pipe would wait for a reader, and a link lead elsewhere.
UniqueFd open_lines(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), kFlags, kLinesMode));  // NOLINT
  struct stat found = {};
  if (fd.get() < 0 || ::fstat(fd.get(), &found) != 0) {
    const bool link = errno == ELOOP;
    throw EnvironmentError(
        text("'", path, "' cannot be written: ",
             link ? "it is a symbolic link, and those are not followed" : std::strerror(errno),
             "."),
        link ? "put the real file in its place, or remove the link."
             : "give this user the right to write it, or name another directory.");
  }
  if (!S_ISREG(found.st_mode)) {
    throw EnvironmentError(text("'", path, "' is not a regular file."),
                           "remove it, or name another directory.");
  }
  return fd;
}

/// A process that was killed may have left half a line.
Ending ending_of(const UniqueFd& file) {
  const auto end = ::lseek(file.get(), 0, SEEK_END);
  char last = 0;
  if (end <= 0 || ::pread(file.get(), &last, 1, end - 1) != 1) return Ending::nothing;
  return last == '\n' ? Ending::whole_line : Ending::torn_line;
}

}  // namespace

JsonLines::JsonLines(const std::string& path) : path_(path) {
  const UniqueFd file = open_lines(path);
  const Ending ending = ending_of(file);
  had_content_ = ending != Ending::nothing;
  // The file that was checked, whatever has taken its name meanwhile.
  lines_.open(text("/proc/self/fd/", file.get()), std::ios::binary | std::ios::app);
  if (!lines_) {
    throw EnvironmentError(text("'", path, "' cannot be written."),
                           "give this user the right to write it, or name another directory.");
  }
  if (ending == Ending::torn_line) lines_ << '\n';
}

void JsonLines::append(const nlohmann::ordered_json& line) {
  lines_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n'
         << std::flush;
  if (!lines_)
    throw EnvironmentError(text("writing to '", path_, "' failed."), "look for a full disk.");
}

}  // namespace troupe
