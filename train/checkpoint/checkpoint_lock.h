// Checkpoint lock: one process writes a model directory. The system's file lock ends with the
// process that holds it; the record in the file says who that is and catches what the lock cannot.
//
// On a file system without working locks (flock) the record alone protects: on this machine by
// whether the process lives, between machines by the generation: docs/checkpoint_format.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "troupe/core/file_system.h"

namespace troupe {

inline constexpr const char* kLockName = ".troupe-lock";

struct LockOwner {
  std::string machine;  // its name
  std::int64_t pid = 0;
  std::uint64_t generation = 0;  // Cluster::generation: which start of the job
  std::uint64_t started = 0;     // process_start(pid): numbers of processes come again
};

/// When the process began, in ticks since this machine did. Unset: there is no such process.
[[nodiscard]] std::optional<std::uint64_t> process_start(std::int64_t pid);

/// Of the process that writes a model directory, or was the last to; unset: there is none.
/// Blocks for 0.1 s where the record makes no sense: its owner may be writing it.
/// Throws: CheckpointError where the file cannot be read.
[[nodiscard]] std::optional<std::uint64_t> generation_on_record(FileSystem& files);

/// This process.
[[nodiscard]] LockOwner this_process(std::uint64_t generation);

class CheckpointLock {
 public:
  /// Takes the lock. A record that a process of this machine left is taken over whatever its
  /// generation, since the file lock says that the process has ended; so is one of another machine
  /// that is of an earlier generation: whoever starts a job again there increments its generation.
  /// The generation on record never decreases: a clock that was set back may have given ours.
  /// Throws: EnvironmentError naming the owner if another process holds the lock, or if the record
  /// is another machine's and not of an earlier generation; CheckpointError.
  CheckpointLock(FileSystem& files, const LockOwner& owner);
  /// Gives it back; the record then has no owner, but still the generation: workers of an elastic
  /// group whose chief has left tell by it that they see the directory.
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

  /// Throws: CheckpointError if the file no longer bears our record: another process took over.
  void check() const;

 private:
  FileSystem& files_;
  std::string record_;
  std::string last_record_;  // once it is given back
  std::unique_ptr<FileLock> lock_;
};

}  // namespace troupe
