// CheckpointWriter: saves checkpoints so that a crash or a loss of power at any moment leaves the
// last one or the new one, whole. docs/checkpoint_format.md has the order of steps and why.
//
// One per model directory (CheckpointLock), used from one thread. Deletes only what it wrote.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/file_system.h"
#include "troupe/core/safetensors.h"
#include "troupe/train/checkpoint/checkpoint_lock.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"
#include "troupe/train/checkpoint/checkpoint_reader.h"

namespace troupe {

/// Which checkpoints stay.
struct RetentionOptions {
  int keep_max = 5;                                // most recently saved; 0: all
  Seconds keep_every = std::chrono::hours(10000);  // besides one for each such span, for ever
};

/// Wall time, for retention and the manifest; decides no order.
using WallClock = std::function<std::chrono::system_clock::time_point()>;

/// One file of a checkpoint. `write` is called once and gives the content to the sink, in pieces.
struct CheckpointFile {
  std::string name;  // see is_file_name
  std::function<void(const ByteSink&)> write;
};

class CheckpointWriter {
 public:
  /// Makes the model directory (the root of `files`, which outlives the writer), takes its lock and
  /// removes what dead processes left half written.
  /// Throws: EnvironmentError if another process writes there; ConfigError for bad options;
  /// CheckpointError.
  CheckpointWriter(FileSystem& files, const LockOwner& owner,
                   const RetentionOptions& retention = {},
                   WallClock clock = &std::chrono::system_clock::now);

  /// Saves `model.ckpt-<step>` and makes it the latest, then removes what retention does not keep.
  /// When it returns, the checkpoint survives a loss of power. An equal checkpoint of that step
  /// stays; another one is replaced, and a crash in that moment leaves the one before as the
  /// newest. Throws: CheckpointError if it could not be saved (the earlier ones are as they were,
  /// this one may be there whole), and what a file's `write` throws. A checkpoint that cannot be
  /// deleted is a warning.
  CheckpointInfo save(std::int64_t step, const std::vector<CheckpointFile>& files,
                      const nlohmann::json& extras = nlohmann::json::object());
  /// The newest checkpoint there is, whose writer was lost before it could write that down: makes
  /// it the latest, unless it is. Throws: CheckpointError.
  void adopt(std::int64_t step);
  /// A checkpoint that was saved is the best one: retention keeps it until another one is, and
  /// then counts it as the oldest. Throws: CheckpointError if that could not be written down.
  void mark_best(const BestCheckpoint& best);
  [[nodiscard]] const std::optional<BestCheckpoint>& best() const { return best_; }

 private:
  CheckpointInfo stage(const std::string& temporary, std::int64_t step,
                       const std::vector<CheckpointFile>& files, const nlohmann::json& extras);
  void publish(const std::string& temporary, const CheckpointInfo& info);
  bool is_saved_already(const CheckpointInfo& info);
  void move_aside(const CheckpointInfo& known);
  void write_index(std::int64_t latest, std::vector<std::int64_t> retained);
  void retain(std::int64_t step);
  bool remove(std::int64_t step);
  void remember(const std::vector<std::int64_t>& left, std::int64_t latest);
  void discard(const std::string& directory);
  void discard_quietly(const std::string& directory);
  [[nodiscard]] std::int64_t keep_span() const;  // seconds
  [[nodiscard]] std::int64_t now() const;
  [[nodiscard]] std::string suffixed(std::int64_t step, const char* suffix) const;

  FileSystem& files_;
  LockOwner owner_;
  RetentionOptions retention_;
  WallClock clock_;
  CheckpointReader reader_;
  CheckpointLock lock_;
  std::vector<std::int64_t> retained_;  // steps in the order they were saved
  std::optional<BestCheckpoint> best_;
  std::set<std::int64_t> not_deleted_;  // of which a warning was given
  std::int64_t keep_after_ = 0;         // as the index has it
};

}  // namespace troupe
