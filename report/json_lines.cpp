#include "troupe/report/json_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr mode_t kLinesMode = 0666;  // less what the umask takes away
constexpr std::streamoff kToldBytes = 4 << 20;
constexpr const char* kKeys[] = {"step", "epoch",      "event",    "task",
                                 "tag",  "checkpoint", "exit_code"};

std::string record_key(const nlohmann::ordered_json& line) {
  std::vector<std::string> names;
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  // An event is known by its keys: a process that finds nothing left to do has less to say of it.
  for (const auto& item : line.items())
    if (!line.contains("event")) names.push_back(item.key());
  std::sort(names.begin(), names.end());
  for (const char* key : kKeys) values.push_back(line.value(key, nlohmann::ordered_json()));
  return json_line(nlohmann::ordered_json{names, values});
}

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

ToldLines::ToldLines(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? std::streamoff(file.tellg()) : 0;
  file.seekg(std::max<std::streamoff>(0, size - kToldBytes));
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) keys_.insert(record_key(json));
  }
}

bool ToldLines::take(const nlohmann::ordered_json& line) {
  const auto found = keys_.find(record_key(line));
  if (found == keys_.end()) return false;
  keys_.erase(found);
  return true;
}

void drop_partial_line(const UniqueFd& file, const std::string& path) {
  struct stat found = {};
  if (::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return;
  off_t end = found.st_size;
  for (char last = 0; end > 0 && ::pread(file.get(), &last, 1, end - 1) == 1 && last != '\n';)
    --end;
  if (end == found.st_size || ::ftruncate(file.get(), end) == 0) return;
  throw EnvironmentError(text("'", path, "' cannot be cut: ", std::strerror(errno), "."),
                         "give this user the right to write it.");
}

JsonLines::JsonLines(const std::string& path) : path_(path), file_(open_lines(path)) {
  drop_partial_line(file_, path_);
  had_content_ = ::lseek(file_.get(), 0, SEEK_END) > 0;
}

bool JsonLines::has_told(const nlohmann::ordered_json& line) {
  if (!told_) told_.emplace(path_);
  return told_->take(line);
}

void JsonLines::append(const nlohmann::ordered_json& line) {
  append_bytes(file_, path_, json_line(line) + "\n");
}

}  // namespace troupe
