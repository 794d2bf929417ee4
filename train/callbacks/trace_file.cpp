#include "train/callbacks/trace_file.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace troupe {

void write_trace_file(const std::string& path, const std::vector<TraceSpan>& spans) {
  std::ofstream out(path, std::ios::trunc);
  const char* separator = "[\n";
  for (const TraceSpan& span : spans) {
    const nlohmann::ordered_json event = {{"name", span.name},   {"ph", "X"},
                                          {"ts", span.start_us}, {"dur", span.duration_us},
                                          {"pid", getpid()},     {"tid", span.thread}};
    // Names come from users' code, too: bytes that are no UTF-8 are replaced.
    out << separator << event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    separator = ",\n";
  }
  out << (spans.empty() ? "[]\n" : "\n]\n") << std::flush;
  if (!out) {
    throw EnvironmentError("the trace '" + path + "' cannot be written.",
                           "name a directory that is writable, on a disk that is not full.");
  }
}

}  // namespace troupe
