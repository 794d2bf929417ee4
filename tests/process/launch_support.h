// What the launcher's tests share: the tool's path, shell workers, and a way to see what is left.
#pragma once

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/caught.h"
#include "tests/support/run_process.h"
#include "troupe/core/clock.h"

namespace troupe::testing {

inline const std::string kTool = TROUPE_BINARY_DIR "/troupe";

/// `troupe run OPTIONS... -- /bin/sh -c SCRIPT`
inline std::vector<std::string> run_command(std::vector<std::string> options,
                                            const std::string& script) {
  std::vector<std::string> command = {kTool, "run"};
  command.insert(command.end(), options.begin(), options.end());
  for (const std::string& word :
       {std::string("--"), std::string("/bin/sh"), std::string("-c"), script})
    command.push_back(word);
  return command;
}

/// How often `part` occurs in `whole`.
inline int count_of(const std::string& whole, const std::string& part) {
  int count = 0;
  for (std::size_t at = whole.find(part); at != std::string::npos; at = whole.find(part, at + 1))
    ++count;
  return count;
}

/// A variable that marks everything that one test starts, and finds it again.
class Marker {
 public:
  Marker() : value_(std::to_string(getpid()) + "-" + std::to_string(next())) {}
  /// Options that mark a process and, by inheritance, all below it.
  [[nodiscard]] ProcessOptions options() const { return {{{"LAUNCH_TEST_MARK", value_}}, {}, ""}; }

  /// Living processes that carry the mark; a zombie has no environment and does not count.
  [[nodiscard]] int alive() const { return static_cast<int>(processes().size()); }
  /// Whether `count` or fewer are left before `limit`.
  [[nodiscard]] bool falls_to(int count, std::chrono::milliseconds limit = kProcessLimit) const {
    for (const Deadline deadline = Deadline::in(limit); alive() > count; poll(nullptr, 0, 5))
      if (deadline.expired()) return false;
    return true;
  }
  /// Whether `count` of them are stopped (SIGSTOP) before `limit`.
  [[nodiscard]] bool rises_to_stopped(int count,
                                      std::chrono::milliseconds limit = kProcessLimit) const {
    const auto stopped = [this] {
      int found = 0;
      for (const std::string& process : processes()) found += has(stat(process), ") T ") ? 1 : 0;
      return found;
    };
    for (const Deadline deadline = Deadline::in(limit); stopped() < count; poll(nullptr, 0, 5))
      if (deadline.expired()) return false;
    return true;
  }
  /// Whether all of them come to sleep without using the processor: two looks see the same.
  [[nodiscard]] bool stands_still(std::chrono::milliseconds limit = kProcessLimit) const {
    const auto look = [this] {
      std::string all;
      for (const std::string& process : processes()) {
        std::ifstream file("/proc/" + process + "/io");  // counts every byte read and written
        all += process + std::string{std::istreambuf_iterator<char>(file), {}};
      }
      return all;
    };
    std::string before;
    for (const Deadline deadline = Deadline::in(limit); !deadline.expired();) {
      const std::string now = look();
      if (now == before) return true;
      before = now;
      poll(nullptr, 0, 50);
    }
    return false;
  }

 private:
  /// Names below /proc.
  [[nodiscard]] std::vector<std::string> processes() const {
    const std::string mark = "LAUNCH_TEST_MARK=" + value_;
    std::vector<std::string> found;
    DIR* all = opendir("/proc");
    while (const dirent* entry = readdir(all)) {
      std::ifstream file("/proc/" + std::string(entry->d_name) + "/environ", std::ios::binary);
      const std::string environment{std::istreambuf_iterator<char>(file), {}};
      if (has(environment, mark)) found.emplace_back(entry->d_name);
    }
    closedir(all);
    return found;
  }
  static std::string stat(const std::string& process) {
    std::ifstream file("/proc/" + process + "/stat");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static int next() {
    static int count = 0;
    return ++count;
  }
  std::string value_;
};

}  // namespace troupe::testing
