// StepFlags: what the workers ask for where a training loop continues. One all-reduce adds them up,
// and what all do next follows from the sums alone, so it is the same on every worker.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "troupe/core/span.h"
#include "troupe/core/stop_signal.h"

namespace troupe::detail {

/// Each is 0 or 1 of one worker; of all, it says how many have asked.
struct StepFlags {
  std::int64_t workers = 1;
  std::int64_t leads = 0;       // it leads, and has told all that was to be reported so far
  std::int64_t save = 0;        // it is time for a checkpoint
  std::int64_t stop = 0;        // an action or the loop asked for the end
  std::int64_t not_finite = 0;  // a loss of the last step
  std::int64_t left = 0;        // the worker's loop has ended before training
  std::int64_t at_end = 0;      // the worker's epoch has no further step
  std::int64_t admit = 0;       // others wait to join an elastic group
  std::int64_t depart = 0;      // the worker leaves an elastic group, which continues
  std::int64_t too_few = 0;     // workers are left in an elastic group
  std::array<std::int64_t, kStopSignals.size()> signals{};  // that came to all workers
  /// Of the leader: 1 + the step of the newest checkpoint; 0: there is none.
  std::int64_t saved = 0;
};

/// For the all-reduce.
[[nodiscard]] std::vector<double> to_values(const StepFlags& flags);
/// Of the sums; what follows them is not read.
[[nodiscard]] StepFlags from_values(Span<const double> sums);

/// What all workers do; several may hold.
struct StepDecision {
  bool not_finite = false;  // the last step is not to be saved
  int signal = 0;           // training ends early by it, once the state is saved
  bool too_few = false;     // training ends early, once the state is saved
  bool stops = false;       // training ends here, because a worker asked for it
  bool is_over = false;     // training ends here, for that or because it was the last step
  bool saves = false;
  bool admits = false;  // an elastic group forms again, with those that wait and without those that
                        // depart
};

/// `is_last`: no step follows.
/// Throws: DesyncError where only some workers have left the loop, or are at the end of an epoch.
[[nodiscard]] StepDecision decide(const StepFlags& all, bool is_last);

}  // namespace troupe::detail
