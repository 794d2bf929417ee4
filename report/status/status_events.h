// StatusEvents: what one reader of the live page is sent, as server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "troupe/report/page/run_directory.h"
#include "troupe/report/progress.h"

namespace troupe::detail {

/// The last progress that was reported, and which one that is. Any thread.
class ProgressBoard {
 public:
  void put(const Progress& progress) {
    const std::lock_guard<std::mutex> lock(mutex_);
    progress_ = progress;
    ++count_;
  }
  /// Count 0: none was reported.
  [[nodiscard]] std::pair<Progress, std::uint64_t> get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {progress_, count_};
  }

 private:
  mutable std::mutex mutex_;
  Progress progress_;
  std::uint64_t count_ = 0;
};

class StatusEvents {
 public:
  /// The last event of a training that is over.
  static constexpr const char* kEnd = "event: end\ndata: {}\n\n";

  /// `progress` outlives this object. `model_dir` may be missing, or hold nothing yet.
  StatusEvents(std::string model_dir, const ProgressBoard& progress)
      : model_dir_(std::move(model_dir)), progress_(progress) {}

  /// What came since the last call, at first all lines of the directory; empty: nothing.
  /// Blocks: for files. Throws: EnvironmentError if a file cannot be read.
  [[nodiscard]] std::string next();

 private:
  std::string model_dir_;
  const ProgressBoard& progress_;
  std::optional<RunDirectory> directory_;  // unset: there is nothing in it yet
  std::uint64_t seen_ = 0;                 // of the progress
};

}  // namespace troupe::detail
