// Processes that a test did not start itself: workers of a launcher, on this machine or in a
// namespace of it.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace troupe::testing {

/// Living processes, but this one, that have `text` in their command line.
[[nodiscard]] inline std::vector<int> processes_with(const std::string& text) {
  std::vector<int> found;
  DIR* all = opendir("/proc");
  while (const dirent* entry = readdir(all)) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    std::ifstream file("/proc/" + std::string(entry->d_name) + "/cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    if (line.find(text) != std::string::npos) found.push_back(pid);
  }
  closedir(all);
  return found;
}

/// The process among them that was started as worker `rank`; 0: there is none.
[[nodiscard]] inline int worker_process(const std::string& text, int rank) {
  const std::string variable = "TROUPE_RANK=" + std::to_string(rank);
  for (const int pid : processes_with(text)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    const std::string all = '\0' + std::string{std::istreambuf_iterator<char>(file), {}};
    if (all.find('\0' + variable + '\0') != std::string::npos) return pid;
  }
  return 0;
}

}  // namespace troupe::testing
