// Process: a program started by a test, its output captured, every wait bounded. It leads a process
// group of its own; the destructor ends that group, so a failing test leaves nothing behind.
//
//   const ProcessResult r = run_process({"/bin/echo", "hi"});      // r.exit_code == 0, r.out ==
//   "hi\n" Process p({tool, "run", ...}); REQUIRE(p.wait_for_output("started")); p.signal(SIGTERM);
//   CHECK(p.wait().exit_code == 143);
//
// Thread rule: start and use from one thread; the program dies with the thread that started it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"

namespace troupe::testing {

struct ProcessOptions {
  std::map<std::string, std::string> set;  // environment variables to add or replace
  std::vector<std::string> unset;          // and to remove
  std::string directory;                   // working directory; empty: the test's own
};

struct ProcessResult {
  int exit_code = -1;      // 128 + number when a signal ended it
  int signal = 0;          // that signal; 0: it ended by itself
  bool timed_out = false;  // it did not end within the limit and was killed
  std::string out;
  std::string err;
};

inline constexpr std::chrono::minutes kProcessLimit{4};

class Process {
 public:
  /// Starts `command` ([0] is a path, or a name to find in PATH) with stdin from /dev/null.
  /// Throws: std::runtime_error. A program that cannot be executed ends with 127.
  explicit Process(const std::vector<std::string>& command, const ProcessOptions& options = {}) {
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
      throw std::runtime_error("pipe2 failed");
    std::vector<std::string> variables = environment(options);
    const std::vector<char*> envp = pointers(variables);
    std::vector<std::string> words = command;
    const std::vector<char*> argv = pointers(words);
    const pid_t test = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {  // only async-signal-safe calls until exec
      setpgid(0, 0);
      ::signal(SIGHUP, SIG_DFL);  // where the tests run under nohup
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != test) _exit(127);
      const int null = open("/dev/null", O_RDONLY);  // NOLINT
      dup2(null, 0);
      dup2(out[1], 1);
      dup2(err[1], 2);
      if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(127);
      execvpe(argv[0], argv.data(), envp.data());
      _exit(127);
    }
    setpgid(pid_, pid_);  // both sides do it: whoever comes first
    close(out[1]);
    close(err[1]);
    streams_[0] = {out[0], {}};
    streams_[1] = {err[0], {}};
    for (const Stream& stream : streams_) fcntl(stream.fd, F_SETFL, O_NONBLOCK);  // NOLINT
  }
  ~Process() {
    if (!ended_) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    for (const Stream& stream : streams_)
      if (stream.fd >= 0) close(stream.fd);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// What has come so far.
  [[nodiscard]] const std::string& out() const { return streams_[0].text; }
  [[nodiscard]] const std::string& err() const { return streams_[1].text; }
  /// Signals the program itself, not its group.
  void signal(int number) const {
    if (!ended_) kill(pid_, number);
  }

  /// Whether `text` appears on stdout or stderr within `limit`; false at once when the program ends
  /// without it. What did appear is then written to stderr.
  bool wait_for_output(const std::string& text, std::chrono::milliseconds limit = kProcessLimit) {
    const Deadline deadline = Deadline::in(limit);
    for (;;) {
      const bool over = try_reap();
      pump(over ? 0 : 10);
      if (out().find(text) != std::string::npos || err().find(text) != std::string::npos)
        return true;
      if (over || deadline.expired()) break;
    }
    std::cerr << "\"" << text << "\" is not in what the program wrote:\n" << out() << err();
    return false;
  }

  /// Waits for the end; after `limit` kills the program's group and says so in `timed_out`.
  /// Returns when the program ended, even if a process that it left behind holds its output open.
  ProcessResult wait(std::chrono::milliseconds limit = kProcessLimit) {
    const Deadline deadline = Deadline::in(limit);
    bool timed_out = false;
    while (!try_reap()) {
      pump(10);
      if (deadline.expired() && !timed_out) {
        timed_out = true;
        kill(-pid_, SIGKILL);
      }
    }
    pump(0);
    ProcessResult result;
    result.signal = WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
    result.exit_code = result.signal != 0 ? 128 + result.signal : WEXITSTATUS(status_);
    result.timed_out = timed_out;
    result.out = out();
    result.err = err();
    return result;
  }

 private:
  struct Stream {
    int fd = -1;
    std::string text;
  };

  static std::vector<std::string> environment(const ProcessOptions& options) {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string line = *entry;
      const std::size_t equals = line.find('=');
      if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
    for (const std::string& name : options.unset) variables.erase(name);
    for (const auto& [name, value] : options.set) variables[name] = value;
    std::vector<std::string> lines;
    for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
    return lines;
  }
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> result;
    for (std::string& word : words) result.push_back(word.data());
    result.push_back(nullptr);
    return result;
  }
  bool try_reap() {
    if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  /// Reads what is there, waiting at most `milliseconds` for the first of it.
  void pump(int milliseconds) {
    pollfd waits[2] = {{streams_[0].fd, POLLIN, 0}, {streams_[1].fd, POLLIN, 0}};
    poll(waits, 2, milliseconds);
    for (Stream& stream : streams_) {
      char buffer[65536];
      ssize_t count = 0;
      while (stream.fd >= 0 && (count = read(stream.fd, buffer, sizeof buffer)) > 0)
        stream.text.append(buffer, static_cast<std::size_t>(count));
      if (stream.fd >= 0 && count == 0) {
        close(stream.fd);
        stream.fd = -1;
      }
    }
  }

  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  Stream streams_[2];
};

/// Runs `command` to its end.
inline ProcessResult run_process(const std::vector<std::string>& command,
                                 const ProcessOptions& options = {},
                                 std::chrono::milliseconds limit = kProcessLimit) {
  return Process(command, options).wait(limit);
}

}  // namespace troupe::testing
