#include "summaries/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <tuple>

#include "core/error.h"
#include "core/text.h"
#include "summaries/event_message.h"
#include "summaries/event_record.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "tfevents";  // what every reader looks for
constexpr std::size_t kSecondsDigits = 10;

std::uint64_t seconds_of(const std::string& name) {
  const std::size_t mark = name.find(text(kMark, "."));
  if (mark == std::string::npos) return 0;
  const char* begin = name.data() + mark + std::char_traits<char>::length(kMark) + 1;
  std::uint64_t seconds = 0;
  const auto result = std::from_chars(begin, name.data() + name.size(), seconds);
  if (result.ec == std::errc::result_out_of_range) return std::numeric_limits<std::uint64_t>::max();
  return seconds;
}

/// This machine's name, as far as it is fit for a file name.
std::string machine_name() {
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) return "unknown";
  std::string name(buffer.data());
  for (char& c : name) {
    const bool fit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '.' || c == '_' || c == '-';
    if (!fit) c = '-';
  }
  return name.empty() ? "unknown" : name;
}

constexpr mode_t kMode = 0644;

/// Seconds for a name: later than those of all files there, so that the order of names is the order
/// of writing also after a quick restart, and on a machine whose clock is behind.
std::uint64_t name_seconds(const std::string& directory, WallTime now) {
  constexpr auto kMax = static_cast<double>(kMaxNameSeconds);
  // Not a number ends as 0: std::max returns its first argument then.
  const auto seconds = static_cast<std::uint64_t>(std::min(std::max(0.0, now), kMax));
  const std::vector<EventFileName> there = list_event_files(directory);
  if (there.empty() || there.back().seconds < seconds) return seconds;
  return std::min(there.back().seconds, kMaxNameSeconds - 1) + 1;
}

/// Makes an empty file under a name that nobody has; returns its path.
std::string create_file(const std::string& directory, WallTime now) {
  const std::string stem = text(directory, "/", event_file_stem(name_seconds(directory, now)));
  for (std::uint64_t count = 0;; ++count) {
    std::string path = text(stem, ".", count);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);  // NOLINT
    if (fd >= 0) {
      ::close(fd);
      return path;
    }
    if (errno == EEXIST || errno == EINTR) continue;
    throw EnvironmentError(text("'", path, "' cannot be made: ", std::strerror(errno), "."),
                           "name a directory that exists and is writable.");
  }
}

}  // namespace

std::vector<EventFileName> list_event_files(const std::string& directory) {
  std::vector<EventFileName> files;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;  // a file that vanishes meanwhile is none
    if (name.find(kMark) != std::string::npos && entry->is_regular_file(gone)) {
      files.push_back({seconds_of(name), name});
    }
  }
  if (error) {
    throw EnvironmentError(
        text("the directory '", directory, "' cannot be listed: ", error.message(), "."),
        "name a directory that this user may read.");
  }
  std::sort(files.begin(), files.end(), [](const EventFileName& a, const EventFileName& b) {
    return std::tie(a.seconds, a.name) < std::tie(b.seconds, b.name);
  });
  return files;
}

std::string event_file_stem(std::uint64_t seconds) {
  std::string digits = text(std::min(seconds, kMaxNameSeconds));
  digits.insert(0, kSecondsDigits - digits.size(), '0');
  return text("events.out.", kMark, ".", digits, ".", machine_name(), ".", ::getpid());
}

EventFile::EventFile(const std::string& directory, WallTime now)
    : path_(create_file(directory, now)), out_(path_, std::ios::binary | std::ios::app) {
  write_record(encode_file_version(now));
  flush();
}

void EventFile::write_session_start(std::int64_t step, WallTime now) {
  write_record(encode_session_start(step, now));
}

void EventFile::write_scalars(std::int64_t step, const std::vector<Scalar>& scalars, WallTime now) {
  write_record(encode_scalars(step, scalars, now));
}

void EventFile::write_text(std::int64_t step, const std::string& tag, const std::string& value,
                           WallTime now) {
  write_record(encode_text(step, tag, value, now));
}

void EventFile::flush() {
  out_.flush();
  if (!out_) {
    throw EnvironmentError(text("writing to '", path_, "' failed."), "look for a full disk.");
  }
}

void EventFile::write_record(const std::string& message) {
  const std::string record = frame_record(message);
  out_.write(record.data(), static_cast<std::streamsize>(record.size()));
  if (!out_) {
    throw EnvironmentError(text("writing to '", path_, "' failed."), "look for a full disk.");
  }
}

}  // namespace troupe
