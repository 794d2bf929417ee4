#include "troupe/report/page/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"
#include "troupe/report/run_journal.h"
#include "troupe/report/summary_writer.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The names of the directories in `path`, sorted; links are none. Empty if there is no `path`.
std::vector<std::string> directories_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (fs::is_directory(entry->symlink_status(unknown)))
      names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_evaluation(const std::string& name) {
  return name == "eval" || name.rfind("eval_", 0) == 0;
}

/// Exporters name their directories by the second; 10 digits are the years 2001 to 2286.
bool is_export_time(const std::string& name) {
  return name.size() == 10 && name.find_first_not_of("0123456789") == std::string::npos;
}

EnvironmentError unreadable(const std::string& path) {
  return {text("'", path, "' cannot be read: ", std::strerror(errno), "."),
          "give this user the right to read it."};
}

/// Unset: there is no such file, or it is not a regular one.
std::optional<UniqueFd> open_to_read(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));  // NOLINT
  if (fd.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENXIO) return {};
    throw unreadable(path);
  }
  struct stat found = {};
  if (::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) return {};
  return fd;
}

/// Unset: `bytes` are not an object of at most RunDirectory::kMostLevels levels.
std::optional<ordered_json> parse_line(std::string_view bytes) {
  struct TooDeep {};
  using Event = ordered_json::parse_event_t;
  const auto watch = [](int levels_around, Event event, ordered_json&) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && levels_around >= RunDirectory::kMostLevels) throw TooDeep();
    return true;
  };
  try {
    ordered_json line = ordered_json::parse(bytes.begin(), bytes.end(), watch);
    if (line.is_object()) return line;
  } catch (const TooDeep&) {
  } catch (const ordered_json::exception&) {  // half a line, or none of ours
  }
  return std::nullopt;
}

}  // namespace

RunDirectory::RunDirectory(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (!fs::is_directory(path_, error)) {
    throw ConfigError(text("'", path_, "' is not a directory."), "name the --model-dir of a run.");
  }
  const auto known = sources();
  const bool any = std::any_of(known.begin(), known.end(), [](const Source& source) {
    std::error_code unknown;
    return fs::exists(fs::symlink_status(source.file, unknown));
  });
  if (any || fs::is_directory(path_ + "/export", error)) return;
  throw ConfigError(text("nothing in '", path_, "' tells of a run: there is no ",
                         RunJournal::kFileName, " and no ", SummaryWriter::kLinesName, "."),
                    "name the --model-dir of a run that has trained.");
}

std::vector<RunDirectory::Source> RunDirectory::sources() const {
  std::vector<Source> found = {{"run", path_ + "/" + RunJournal::kFileName},
                               {"train", path_ + "/" + SummaryWriter::kLinesName}};
  for (const std::string& name : directories_in(path_)) {
    if (is_evaluation(name))
      found.push_back({name, path_ + "/" + name + "/" + SummaryWriter::kLinesName});
  }
  return found;
}

std::vector<RunLine> RunDirectory::read_on() {
  std::vector<RunLine> lines;
  std::uint64_t left = kMostBytesAtOnce;
  for (const Source& source : sources()) {
    const std::uint64_t before = places_[source.file].offset;
    if (left > 0) read_file(source, left, lines);
    const std::uint64_t after = places_[source.file].offset;
    left -= std::min(left, after > before ? after - before : 0);
  }
  read_exports(lines);
  return lines;
}

void RunDirectory::read_file(const Source& source, std::uint64_t most,
                             std::vector<RunLine>& lines) {
  const auto file = open_to_read(source.file);
  if (!file) return;
  Place& place = places_[source.file];
  struct stat found = {};
  if (::fstat(file->get(), &found) != 0) throw unreadable(source.file);
  // Shorter than what was read of it: another file has taken its place.
  if (static_cast<std::uint64_t>(found.st_size) < place.offset) place = {};
  std::string rest;  // of the line under way, which begins at place.offset
  std::uint64_t at = place.offset;
  std::array<char, 1 << 16> piece;
  while (most > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(most, piece.size());
    const ::ssize_t count = ::pread(file->get(), piece.data(), wanted, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw unreadable(source.file);
    if (count == 0) break;
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (auto end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n', begin)) {
      rest += bytes.substr(begin, end - begin);
      auto line =
          place.in_long_line || rest.size() > kMostLineBytes ? std::nullopt : parse_line(rest);
      if (line) lines.push_back({source.name, std::move(*line)});
      rest.clear();
      begin = end + 1;
      place = {at + begin, false};
    }
    rest += bytes.substr(begin);
    at += bytes.size();
    most -= bytes.size();
    if (rest.size() > kMostLineBytes || place.in_long_line) {
      rest.clear();
      place = {at, true};
    }
  }
}

void RunDirectory::read_exports(std::vector<RunLine>& lines) {
  const std::string root = path_ + "/export";
  for (const std::string& exporter : directories_in(root)) {
    for (const std::string& name : directories_in(root + "/" + exporter)) {
      if (!is_export_time(name) || !exports_.insert(exporter + "/" + name).second) continue;
      lines.push_back({"export/" + exporter, {{"time", std::stoll(name)}}});
    }
  }
}

}  // namespace troupe
