// MarkerReader: the finished marker as an evaluator may trust it.
#pragma once

#include <optional>
#include <string>

#include "core/clock.h"
#include "estimator/roles/finished_marker.h"

namespace troupe {

class MarkerReader {
 public:
  /// `files` and `clock` outlive it.
  MarkerReader(FileSystem& files, const Clock& clock) : files_(files), clock_(clock) {}

  /// The marker; unset: training has not ended. One that was there at the first look may be of an
  /// earlier run that the chief is about to go on from, and has kGrace to take it away.
  [[nodiscard]] std::optional<Finished> read();

  static constexpr Seconds kGrace{30};

 private:
  [[nodiscard]] bool has_changed();

  FileSystem& files_;
  const Clock& clock_;
  std::optional<Clock::TimePoint> first_look_;
  std::string content_;  // of the file at the last look; a damaged one is told of once
  std::string old_;      // of the file at the first look
  std::optional<Finished> marker_;
};

}  // namespace troupe
