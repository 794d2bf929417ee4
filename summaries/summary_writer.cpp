#include "summaries/summary_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/unique_fd.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kLinesName = "summaries.jsonl";
constexpr mode_t kLinesMode = 0644;

/// One line. Numbers that are not finite come out as null: JSON has none.
std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// `bytes` with U+FFFD in place of what is not UTF-8: readers refuse a whole event for it, and a
/// path may hold any bytes.
std::string to_utf8(const std::string& bytes) {
  return ordered_json::parse(dump(bytes)).get<std::string>();
}

/// The line's own keys stay its own: a metric that is called "step" becomes "scalar/step".
std::string key_of(const std::string& tag) {
  return tag == "step" || tag == "time" || tag == "session_start" ? "scalar/" + tag : tag;
}

ordered_json begin_line(std::int64_t step, WallTime now) {
  ordered_json line;
  line["step"] = step;
  line["time"] = now;
  return line;
}

void make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && !fs::is_directory(directory, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw EnvironmentError(
        text("the directory '", directory, "' cannot be made: ", error.message(), "."),
        "name a directory below one that this user may write to.");
  }
}

enum class Ending { nothing, whole_line, torn_line };

/// Opens the file to append to it, made if missing. Whoever reads a model directory may also have
/// put a pipe or a link there: the one would wait for a reader, the other lead elsewhere.
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

WallTime system_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

SummaryWriter::SummaryWriter(std::string directory, std::optional<std::int64_t> first_step, Now now)
    : directory_(std::move(directory)), first_step_(first_step), now_(std::move(now)) {
  make_directory(directory_);
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::write(std::int64_t step, const std::vector<Scalar>& scalars) {
  if (scalars.empty()) return;
  const WallTime now = now_();
  open(now);
  std::vector<Scalar> shown = scalars;
  ordered_json line = begin_line(step, now);
  for (Scalar& scalar : shown) {
    scalar.tag = to_utf8(scalar.tag);
    line[key_of(scalar.tag)] = scalar.value;
  }
  append(encode_scalars(step, shown, now), dump(line));
}

void SummaryWriter::write_text(std::int64_t step, const std::string& tag,
                               const std::string& value) {
  const WallTime now = now_();
  open(now);
  const std::string shown_tag = to_utf8(tag);
  const std::string shown_value = to_utf8(value);
  ordered_json line = begin_line(step, now);
  line[key_of(shown_tag)] = shown_value;
  append(encode_text(step, shown_tag, shown_value, now), dump(line));
}

void SummaryWriter::open(WallTime now) {
  if (events_) return;
  const std::string path = directory_ + "/" + kLinesName;
  const UniqueFd file = open_lines(path);
  const Ending ending = ending_of(file);
  // The file that was checked, whatever has taken its name meanwhile.
  lines_.open(text("/proc/self/fd/", file.get()), std::ios::binary | std::ios::app);
  if (!lines_) {
    throw EnvironmentError(text("'", path, "' cannot be written."),
                           "give this user the right to write it, or name another directory.");
  }
  if (ending == Ending::torn_line) lines_ << '\n';
  auto events = std::make_unique<EventFile>(directory_, now);
  // A run that was killed before its first checkpoint starts again at 0 beside what it wrote.
  if (first_step_ && (*first_step_ > 0 || ending != Ending::nothing)) {
    events->write(encode_session_start(*first_step_, now));
    lines_ << dump({{"step", *first_step_}, {"session_start", true}, {"time", now}}) << '\n';
  }
  events_ = std::move(events);
}

void SummaryWriter::append(const std::string& event, const std::string& line) {
  events_->write(event);
  events_->flush();
  lines_ << line << '\n' << std::flush;
  if (!lines_) {
    throw EnvironmentError(text("writing to '", directory_, "/", kLinesName, "' failed."),
                           "look for a full disk.");
  }
}

}  // namespace troupe
