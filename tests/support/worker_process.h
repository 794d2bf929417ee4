// Processes that a test did not start itself: workers of a launcher, on this machine or in a
// namespace of it.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/process_file.h"

namespace troupe::testing {

/// Living processes, but this one, that have `text` in their command line.
[[nodiscard]] inline std::vector<int> processes_with(const std::string& text) {
  std::vector<int> found;
  DIR* all = opendir("/proc");
  while (const dirent* entry = readdir(all)) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    if (process_file(entry->d_name, "cmdline").find(text) != std::string::npos)
      found.push_back(pid);
  }
  closedir(all);
  return found;
}

/// Whether it was started with this variable: "TROUPE_RANK=1".
[[nodiscard]] inline bool has_variable(int pid, const std::string& variable) {
  const std::string all = '\0' + process_file(std::to_string(pid), "environ");
  return all.find('\0' + variable + '\0') != std::string::npos;
}

/// The process that has `text` in its command line and was started as worker `rank`; 0: there is
/// none. Other tests run at the same time: the text is this test's own, or a `variable` is.
[[nodiscard]] inline int worker_process(const std::string& text, int rank,
                                        const std::string& variable = "") {
  for (const int pid : processes_with(text)) {
    const bool is_ours = variable.empty() || has_variable(pid, variable);
    if (is_ours && has_variable(pid, "TROUPE_RANK=" + std::to_string(rank))) return pid;
  }
  return 0;
}

}  // namespace troupe::testing
