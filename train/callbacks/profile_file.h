// A profile: what all workers did in some steps, on one time axis, as a file for ui.perfetto.dev
// and chrome://tracing. Workers' clocks are aligned by meetings: moments that lie between two
// readings of each worker's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/core/span.h"
#include "troupe/core/trace.h"

namespace troupe::detail {

/// What a worker read off its clock before and after something that nobody ends before all have
/// begun it. In nanoseconds.
struct Meeting {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

/// A worker's part of a profile.
struct WorkerProfile {
  std::string process;            // "worker/1"
  std::string clock;              // names the clock: equal where two workers read the same one
  std::vector<Meeting> meetings;  // the same number on every worker, in the same order
  Trace trace;
};

[[nodiscard]] std::vector<std::byte> encode(const WorkerProfile& profile);
/// Throws: DesyncError if these are not the bytes of one.
[[nodiscard]] WorkerProfile decode_profile(Span<const std::byte> bytes);

/// A clock against another one.
struct ClockOffset {
  double ns = 0;     // that the other is ahead
  double error = 0;  // at most so far off, in ns
};

/// Each meeting says that its moment lies in both workers' intervals, which bounds the offset; the
/// middle of what all allow is taken, and half of its width is the error. Where both read one
/// clock, both are 0. Infinite error: no meetings.
[[nodiscard]] ClockOffset offset_between(const WorkerProfile& reference,
                                         const WorkerProfile& other);

/// The steps of a profile.
struct ProfiledSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// {"traceEvents": [...], "otherData": {...}}: complete events ("ph": "X", times in microseconds of
/// the first worker's clock since the earliest interval), names of processes and threads ("ph":
/// "M"), and beside them the steps, and each worker's clock offset and its error in microseconds.
/// `path`'s folder is made. Shapes: at least one worker. Throws: EnvironmentError if it cannot be
/// written.
void write_profile(const std::string& path, const std::vector<WorkerProfile>& workers,
                   const ProfiledSteps& steps);

/// The system's name for the steady clock that this process reads: the same in all processes of a
/// machine since its start, in one time namespace. A name of this process alone if unknown.
[[nodiscard]] std::string clock_name();

}  // namespace troupe::detail
