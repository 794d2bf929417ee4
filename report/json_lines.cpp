#include "troupe/report/json_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr mode_t kLinesMode = 0666;  // less what the umask takes away

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

}  // namespace

void append_bytes(const UniqueFd& file, const std::string& path, const std::string& bytes) {
  const Span<const char> all(bytes.data(), bytes.size());
  if (detail::write_fully(file.get(), as_bytes(all), ::write) == 0) return;
  throw EnvironmentError(text("writing to '", path, "' failed."), "look for a full disk.");
}

JsonLines::JsonLines(const std::string& path) : path_(path), file_(open_lines(path)) {
  const auto end = ::lseek(file_.get(), 0, SEEK_END);
  char last = '\n';
  had_content_ = end > 0 && ::pread(file_.get(), &last, 1, end - 1) == 1;
  if (last != '\n') append_bytes(file_, path_, "\n");  // of a process that was killed
}

void JsonLines::append(const nlohmann::ordered_json& line) {
  append_bytes(file_, path_, json_line(line) + "\n");
}

}  // namespace troupe
