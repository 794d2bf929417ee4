#include "troupe/train/checkpoint/checkpoint_room.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <limits>

#include "troupe/core/error.h"
#include "troupe/core/options/checkpoint_cadence.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// The path itself, or the nearest one above it that exists.
fs::path existing(const std::string& directory) {
  fs::path path = fs::absolute(directory.empty() ? "." : directory);
  std::error_code error;
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::int64_t checkpoints_there(const std::string& directory) {
  std::int64_t count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().rfind("model.ckpt-", 0) == 0) ++count;
  }
  return count;
}

}  // namespace

void check_writable(const std::string& directory, const std::string& setting) {
  const fs::path path = existing(directory);
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw EnvironmentError(
        text(setting, " ", directory, " cannot be made: ", path.string(), " is no directory."),
        "name another folder.");
  }
  if (access(path.c_str(), W_OK | X_OK) == 0) return;
  throw EnvironmentError(
      text(setting, " ", directory, " cannot be written: ", path.string(), " is read-only here."),
      "name a folder that this user may write, or change its permissions.");
}

std::int64_t checkpoints_ahead(const TrainOptions& options, std::int64_t first, std::int64_t last) {
  const CheckpointCadence cadence = checkpoint_cadence(options);
  if (cadence.never()) return 0;
  constexpr auto kUnknown = std::numeric_limits<std::int64_t>::max();
  std::int64_t made = kUnknown;
  // The state that training starts from, one every so many steps, and the last.
  if (cadence.steps && last < kUnknown) made = (last - first) / *cadence.steps + 2;
  const std::int64_t kept =
      options.keep_checkpoint_max == 0 ? made : std::min(options.keep_checkpoint_max + 1, made);
  if (kept == kUnknown) return 1;
  return std::max<std::int64_t>(1, kept - checkpoints_there(options.model_dir));
}

std::uint64_t free_bytes(const std::string& directory) {
  std::error_code error;
  const fs::space_info space = fs::space(existing(directory), error);
  if (!error) return space.available;
  throw EnvironmentError(
      text("the free space of ", directory, " is unknown: ", error.message(), "."),
      "name another folder.");
}

void check_room(const std::string& directory, std::int64_t each, std::int64_t count,
                std::uint64_t free) {
  const double needed = static_cast<double>(each) * static_cast<double>(count);
  if (needed <= static_cast<double>(free)) return;
  throw EnvironmentError(
      text(directory, " has ", megabytes(static_cast<double>(free)), " free; ", count,
           count == 1 ? " checkpoint of " : " checkpoints of ",
           megabytes(static_cast<double>(each)), " need ", megabytes(needed), "."),
      "make room, lower --keep-checkpoint-max, or name another --model-dir.");
}

std::string megabytes(double bytes) {
  return text(std::fixed, std::setprecision(bytes < 1e5 ? 3 : 1), bytes / 1e6, " MB");
}

}  // namespace troupe
