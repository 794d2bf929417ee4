// What the launcher's tests share: the tool's path, shell workers, and a way to see what is left.
#pragma once

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/caught.h"
#include "tests/support/process_file.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
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

/// What "ended after step N with SUM" lines say, where SUM is that of 1 to N; -1 where it is not.
inline long long ended_after(const std::string& out, const std::string& worker) {
  const std::string head = "[" + worker + "] ended after step ";
  const std::size_t at = out.find(head);
  if (at == std::string::npos) return -1;
  const long long step = std::stoll(out.substr(at + head.size()));
  return has(out, head + std::to_string(step) + " with " + std::to_string(step * (step + 1) / 2))
             ? step
             : -1;
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
        all += process + process_file(process, "io");  // counts every byte read and written
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
      if (has(process_file(entry->d_name, "environ"), mark)) found.emplace_back(entry->d_name);
    }
    closedir(all);
    return found;
  }
  static std::string stat(const std::string& process) { return process_file(process, "stat"); }
  static int next() {
    static int count = 0;
    return ++count;
  }
  std::string value_;
};

/// Pipes in a folder of their own. A shell that reads one waits until somebody writes to it.
class Gates {
 public:
  [[nodiscard]] std::string path(const std::string& name) const {
    const std::string file = (folder_ / name).string();
    mkfifo(file.c_str(), 0600);  // it may be there
    return file;
  }
  void open(const std::string& name) const { std::ofstream(path(name)) << "go\n"; }
  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  [[nodiscard]] std::string wait(const std::string& name) const {
    return "read go < " + path(name) + "; ";
  }
  /// For shells, to open a gate for another one.
  [[nodiscard]] std::string pass(const std::string& name) const {
    return "echo go > " + path(name) + "; ";
  }

 private:
  TempDir folder_;
};

/// A part of what a program prints.
struct Part {
  Part(const char* part, int times = -1) : text(part), count(times) {}             // NOLINT
  Part(std::string part, int times = -1) : text(std::move(part)), count(times) {}  // NOLINT
  std::string text;
  int count;  // how often; below 0: once or more
};
using Parts = std::vector<Part>;

/// A run of the launcher and what must come of it.
struct Scenario {
  const char* name;
  std::vector<std::string> command;
  int exit_code;
  Parts err;  // on stderr
  Parts out = {};
  std::vector<std::string> awaited = {};  // before `then`
  std::function<void(Process& launcher)> then = nullptr;
};

/// Runs them one after the other; none may leave a process behind.
inline void check_runs(const std::vector<Scenario>& scenarios) {
  for (const Scenario& scenario : scenarios) {
    CAPTURE(scenario.name);
    const Marker marker;
    Process launcher(scenario.command, marker.options());
    for (const std::string& line : scenario.awaited) REQUIRE(launcher.wait_for_output(line));
    if (scenario.then) scenario.then(launcher);
    const ProcessResult result = launcher.wait();
    CAPTURE(result.out);
    CAPTURE(result.err);
    CHECK(!result.timed_out);
    CHECK(result.exit_code == scenario.exit_code);
    for (const auto& [whole, parts] :
         {std::pair(result.out, scenario.out), {result.err, scenario.err}})
      for (const Part& part : parts) {
        CAPTURE(part.text);
        const int count = count_of(whole, part.text);
        CHECK((part.count < 0 ? count > 0 : count == part.count));
      }
    CHECK(marker.alive() == 0);
  }
}

/// What sends these signals, one at once after the other.
inline std::function<void(Process&)> send(std::vector<int> signals) {
  return [signals = std::move(signals)](Process& launcher) {
    for (const int signal : signals) launcher.signal(signal);
  };
}
inline std::function<void(Process&)> open(const Gates& gates, const std::string& name) {
  return [&gates, name](Process&) { gates.open(name); };
}

}  // namespace troupe::testing
