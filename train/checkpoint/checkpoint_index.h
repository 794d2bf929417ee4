// Checkpoint index: the file `checkpoint`, which says where to continue and what retention counts.
// Names in it are relative to its directory, so the directory can be moved.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/file_system.h"

namespace troupe {

inline constexpr const char* kIndexName = "checkpoint";

struct CheckpointIndex {
  std::int64_t latest = 0;             // step
  std::vector<std::int64_t> retained;  // steps, in the order they were saved; ends with `latest`
};

/// Unset where there is none yet.
/// Throws: CheckpointError if it cannot be read or names anything but checkpoints beside it.
[[nodiscard]] std::optional<CheckpointIndex> read_index(FileSystem& files);

/// Replaces the index in one step, durably. One writer at a time: CheckpointLock.
/// Throws: CheckpointError; the old index is then as it was, or the new one is there.
void write_index(FileSystem& files, const CheckpointIndex& index);

}  // namespace troupe
