#include "summaries/event_file_name.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>
#include <tuple>

#include "core/error.h"
#include "core/text.h"

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

}  // namespace troupe
