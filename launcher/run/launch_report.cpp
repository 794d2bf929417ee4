#include "troupe/launcher/run/launch_report.h"

#include <csignal>
#include <cstdio>

#include "troupe/core/text.h"

namespace troupe {

std::string seconds_text(Seconds time) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f s", time.count());
  return buffer;
}

std::string end_text(const EndedProcess& process) {
  return text(process.name, " ", describe(process.end), " after ", seconds_text(process.ran));
}

std::string culprit_text(const EndedProcess& process) {
  std::string message = end_text(process);
  if (process.end.signal == SIGKILL) message += " (out of memory? `dmesg` knows)";
  message += process.last_lines.empty() ? "; it printed nothing." : "; its last lines:";
  for (const std::string& line : process.last_lines) message += "\n  " + line;
  if (!process.log_path.empty()) message += text("\nAll of it is in ", process.log_path, ".");
  return message;
}

std::string group_text(int workers, int servers, int evaluators) {
  std::vector<std::string> parts = {text(workers, workers == 1 ? " worker" : " workers")};
  if (servers > 0) parts.push_back(text(servers, servers == 1 ? " server" : " servers"));
  if (evaluators > 0) parts.emplace_back("an evaluator");
  return listed(parts, " and ");
}

}  // namespace troupe
