// GroupChild: a group_worker process whose output the test reads; it is gone when the test is.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"

namespace troupe::testing {

class GroupChild {
 public:
  /// `keep_fd` is inherited by the program (-1: none); every other descriptor is not.
  GroupChild(const std::string& program, std::vector<std::string> arguments, int keep_fd) {
    int output[2];
    int input[2];
    if (::pipe2(output, O_CLOEXEC) != 0 || ::pipe2(input, O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe for the test");
    }
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {  // only async-signal-safe calls from here to exec
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(output[1], STDOUT_FILENO);
      if (keep_fd >= 0) ::fcntl(keep_fd, F_SETFD, 0);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(output[1]);
    ::close(input[0]);
    output_ = output[0];
    input_ = input[1];
  }
  ~GroupChild() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (input_ >= 0) ::close(input_);
    ::close(output_);
  }
  GroupChild(const GroupChild&) = delete;
  GroupChild& operator=(const GroupChild&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void tell_to_end() { ::close(std::exchange(input_, -1)); }

  /// Reads until `line` has come.
  void wait_for(const std::string& line) {
    const Deadline limit = Deadline::in(std::chrono::seconds(60));
    while (said_.find(line) == std::string::npos) {
      if (!read_more(limit)) throw std::runtime_error("no '" + line + "', but: " + said_);
    }
  }

  /// Reads to the end of the output and gives the exit code, or -signal.
  [[nodiscard]] int wait_exit() {
    const Deadline limit = Deadline::in(std::chrono::seconds(60));
    while (read_more(limit)) {
    }
    if (limit.expired()) throw std::runtime_error("it does not end; it said: " + said_);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  [[nodiscard]] const std::string& said() const { return said_; }

 private:
  // False at the end of the output or when the limit is over.
  bool read_more(const Deadline& limit) {
    pollfd wait = {output_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(limit.remaining().count())) <= 0) return false;
    char buffer[4096];
    const auto got = ::read(output_, buffer, sizeof(buffer));
    if (got <= 0) return false;
    said_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  pid_t pid_ = -1;
  int output_ = -1;
  int input_ = -1;
  std::string said_;
};

}  // namespace troupe::testing
