// CheckpointReader: finds, verifies and reads the checkpoints of a model directory. Needs no lock:
// it may run beside the process that writes them, on any machine. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/file_system.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace troupe {

class CheckpointReader {
 public:
  /// `files` has the model directory as its root and outlives the reader.
  explicit CheckpointReader(FileSystem& files) : files_(files) {}

  /// Gives checkpoints to `load` until it accepts one, and returns that one: first the latest of
  /// the index, then by step from the highest on. One that is damaged, or for which `load` throws
  /// CheckpointError, is named in a warning and the next is tried; every other exception passes.
  /// `load` reads what it needs with read() and must leave no half of a refused one behind.
  /// Unset: there is no checkpoint (also where the directory is missing).
  /// Throws: CheckpointError if there are some and none is good.
  [[nodiscard]] std::optional<CheckpointInfo> load_latest(
      const std::function<void(const CheckpointInfo&)>& load);

  /// The same with verify: the newest good one.
  [[nodiscard]] std::optional<CheckpointInfo> latest();

  /// All whose manifest is good and whose files are there in full size, by step. Contents are not
  /// verified. Damaged ones are named in a warning.
  [[nodiscard]] std::vector<CheckpointInfo> all();

  /// The checkpoint of one step. Throws: CheckpointError if it is not there, its manifest is not
  /// good, or a file is missing or has another size.
  [[nodiscard]] CheckpointInfo open(std::int64_t step);

  /// One file's content. Throws: CheckpointError if it is not the one that was saved, bit for bit,
  /// or `info` does not list it.
  [[nodiscard]] std::vector<std::byte> read(const CheckpointInfo& info,
                                            const std::string& file_name);

  /// The first `count` bytes of one file, or all of a shorter one; not verified.
  /// Throws: CheckpointError if it cannot be read.
  [[nodiscard]] std::vector<std::byte> read_start(const CheckpointInfo& info,
                                                  const std::string& file_name,
                                                  std::uint64_t count);

  /// Reads every file. Throws: CheckpointError as read does.
  void verify(const CheckpointInfo& info);

 private:
  struct Failure {
    std::int64_t step = 0;
    std::string message;
  };
  /// What load_latest and all may find: steps of names that are not foreign, highest first.
  std::vector<std::int64_t> steps_on_disk();
  std::string index_text();

  FileSystem& files_;
};

}  // namespace troupe
