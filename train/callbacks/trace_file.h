// Traces in the format of Chrome's about:tracing and of Perfetto: a JSON array of complete events,
// {"name": "aten::mm", "ph": "X", "ts": 12.5, "dur": 80.1, "pid": 4711, "tid": 1}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Something that took time on a thread. Times are microseconds, the format's unit.
struct TraceSpan {
  std::string name;
  double start_us = 0;  // since the trace was started
  double duration_us = 0;
  std::uint64_t thread = 0;
};

/// Throws: EnvironmentError where the file cannot be written.
void write_trace_file(const std::string& path, const std::vector<TraceSpan>& spans);

}  // namespace troupe
