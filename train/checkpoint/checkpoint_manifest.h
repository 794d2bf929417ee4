// Checkpoint manifest: the file that makes a directory a complete checkpoint. It is written last
// and names every other file with its size and digest, so nothing can be missing, swapped or
// changed unnoticed. docs/checkpoint_format.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/core/file_system.h"
#include "troupe/core/span.h"

namespace troupe {

inline constexpr const char* kManifestName = "manifest.json";
/// An empty file, made first and removed last: the directory is Troupe's to delete.
inline constexpr const char* kMarkerName = ".troupe";
inline constexpr int kManifestVersion = 2;
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{16} << 20;

struct CheckpointFileInfo {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};

struct CheckpointInfo {
  std::int64_t step = 0;
  std::int64_t written_at = 0;  // seconds since 1970, by the writer's clock; decides no order
  std::vector<CheckpointFileInfo> files;
  nlohmann::json extras = nlohmann::json::object();  // the caller's, as it was given to save
};

/// The directory's name: "model.ckpt-12".
[[nodiscard]] std::string checkpoint_name(std::int64_t step);
/// The step in such a name; unset for every other name, "model.ckpt-012" and "../x" among them.
[[nodiscard]] std::optional<std::int64_t> step_of(std::string_view name);

/// Whether a checkpoint may hold a file of this name: 1 to 128 of A-Z a-z 0-9 . _ -, not starting
/// with a dot, not the manifest's.
[[nodiscard]] bool is_file_name(std::string_view name);

/// Whether both have the same files, byte for byte, and extras.
[[nodiscard]] bool same_content(const CheckpointInfo& a, const CheckpointInfo& b);

/// The manifest's text. Throws: CheckpointError if `info.extras` has a NaN or text that is not
/// UTF-8.
[[nodiscard]] std::string write_manifest(const CheckpointInfo& info);

/// Reads a manifest; `shown` names it in messages.
/// Throws: CheckpointError if it is damaged, of another format or of another version.
[[nodiscard]] CheckpointInfo read_manifest(Span<const std::byte> bytes, const std::string& shown);

/// The checkpoint that is the best by a metric: it stays until a better one comes.
struct BestCheckpoint {
  std::int64_t step = 0;
  std::string metric;  // its name
  double value = 0;    // finite
};

inline constexpr const char* kIndexName = "checkpoint";
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{16} << 20;

/// The file `checkpoint`, which says where to continue and what retention counts. Names in it are
/// relative to its directory, so the directory can be moved.
struct CheckpointIndex {
  std::int64_t latest = 0;             // step
  std::vector<std::int64_t> retained;  // steps, in the order they were saved; ends with `latest`
  std::optional<BestCheckpoint> best = std::nullopt;
  /// Seconds since 1970: the first checkpoint after it that retention retires stays for ever.
  std::optional<std::int64_t> keep_after = std::nullopt;
};

/// Unset where there is none yet.
/// Throws: CheckpointError if it cannot be read or names anything but checkpoints beside it.
[[nodiscard]] std::optional<CheckpointIndex> read_index(FileSystem& files);

/// The same; one that cannot be used counts as none, with a warning.
[[nodiscard]] std::optional<CheckpointIndex> usable_index(FileSystem& files);

/// Replaces the index in one step, durably. One writer at a time: CheckpointLock.
/// Throws: CheckpointError; the old index is then as it was, or the new one is there.
void write_index(FileSystem& files, const CheckpointIndex& index);

}  // namespace troupe
