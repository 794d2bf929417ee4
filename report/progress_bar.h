// The progress block: what a terminal shows of a running training, in a few lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/report/progress.h"

namespace troupe {

/// What a launcher knows of one process that it started.
struct ProcessStatus {
  enum class State {
    running,  // and nothing more is known of it
    training,
    validating,
    restarting,  // ended, and another takes its place
    ended,       // did its part
    failed,      // ended with an exit code that says so
    lost,        // killed by a signal, or gone after it lost others
  };
  std::string name;  // "worker/1", "ps/0", "evaluator/0"
  State state = State::running;
  std::int64_t step = 0;  // of one that trains or validates
};

struct BlockStyle {
  int columns = 80;      // of the terminal; every line is shorter
  bool colored = false;  // the bar dim; what was lost or failed red
};

/// At most four lines: the bar; losses and speed; the last validation; the processes. Narrow
/// terminals get shorter forms, and lines of which nothing fits are left out. `progress` unset: no
/// worker has told any. ASCII without control characters, whatever names hold, but for the colors.
[[nodiscard]] std::vector<std::string> progress_block(const std::optional<Progress>& progress,
                                                      const std::vector<ProcessStatus>& processes,
                                                      const BlockStyle& style);

}  // namespace troupe
