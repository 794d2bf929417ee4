// Finished marker: the file `finished.json` of a model directory, with which the chief tells the
// evaluator that no further checkpoint will follow. Estimator's evaluator knew only max_steps and
// never ended if training stopped early.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "troupe/core/clock.h"
#include "troupe/core/file_system.h"

namespace troupe {

inline constexpr const char* kFinishedName = "finished.json";

/// How far training was to go; a marker of a run with another goal says nothing about this one.
struct TrainingGoal {
  std::optional<std::int64_t> max_steps;
  std::optional<std::int64_t> epochs;
};
[[nodiscard]] bool operator==(const TrainingGoal& a, const TrainingGoal& b);

struct Finished {
  std::int64_t step = 0;  // of the last checkpoint
  TrainingGoal goal;
  std::string reason;  // "max_steps reached", "early stopping: ..."
};

/// Durable and in one step; replaces the former one. Throws: CheckpointError.
void write_finished(FileSystem& files, const Finished& finished);
/// Unset: there is none, or it is unusable (logged as a warning).
[[nodiscard]] std::optional<Finished> read_finished(FileSystem& files);
/// Removes it if it exists. Throws: CheckpointError.
void clear_finished(FileSystem& files);

/// A small file that is polled.
class WatchedFile {
 public:
  /// `files` outlives it. A file of more than `max_bytes` counts as none.
  WatchedFile(FileSystem& files, std::string name, std::uint64_t max_bytes)
      : files_(files), name_(std::move(name)), max_bytes_(max_bytes) {}

  /// Reads it. Whether its content differs from that of the previous read; true at the first one.
  [[nodiscard]] bool has_changed();
  /// At the last read; "" if it did not exist.
  [[nodiscard]] const std::string& content() const { return *content_; }

 private:
  FileSystem& files_;
  const std::string name_;
  const std::uint64_t max_bytes_;
  std::optional<std::string> content_;
};

/// The finished marker as an evaluator may trust it.
class MarkerReader {
 public:
  /// `files` and `clock` outlive it.
  MarkerReader(FileSystem& files, const Clock& clock);

  /// The marker; unset: training has not ended. One that existed at the first read may be of an
  /// earlier run that the chief is about to continue; the chief has kGrace to remove it.
  [[nodiscard]] std::optional<Finished> read();

  static constexpr Seconds kGrace{30};

 private:
  FileSystem& files_;
  const Clock& clock_;
  WatchedFile file_;  // read when it has changed: a damaged one is logged once
  std::optional<Clock::TimePoint> first_look_;
  std::string old_;  // the file at the first read
  std::optional<Finished> marker_;
};

}  // namespace troupe
