#include "troupe/launcher/run/launch_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

std::array<UniqueFd, 2> owned(int result, const int (&ends)[2], const char* what) {
  if (result != 0)
    throw EnvironmentError(text("cannot make a ", what, ": ", std::strerror(errno), "."),
                           "raise the limit of open files (ulimit -n) or start fewer workers.");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool is_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

void check_executable(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    throw ConfigError(text("cannot run ", path, ": ", std::strerror(errno), "."),
                      "check the path after `--`; it is relative to the current directory.");
  if (!S_ISREG(status.st_mode))
    throw ConfigError(text("cannot run ", path, ": it is not a file."),
                      "name the program to start after `--`.");
  if (access(path.c_str(), X_OK) != 0)
    throw ConfigError(text("cannot run ", path, ": it is not executable."),
                      text("run `chmod +x ", path, "`, or start it with its interpreter."));
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

void default_signals() {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction inherited {};
    if (number == SIGHUP && sigaction(number, nullptr, &inherited) == 0 &&
        inherited.sa_handler == SIG_IGN)
      continue;
    sigaction(number, &usual, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// All that the child needs was made before fork: after it only async-signal-safe calls are
/// allowed. `report_fd` takes errno if it cannot execute, and closes by itself on success.
[[noreturn]] void become_program(const ChildStart& start, char* const* argv, char* const* envp,
                                 pid_t launcher, int report_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(127);  // it died before the line above
  default_signals();
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);  // NOLINT
  if (in >= 0 && dup2(in, 0) >= 0 && dup2(start.out_fd, 1) >= 0 && dup2(start.err_fd, 2) >= 0) {
    for (const int fd : start.inherited)
      if (fd >= 0) fcntl(fd, F_SETFD, 0);  // NOLINT: POSIX is variadic
    execve(start.program.c_str(), argv, envp);
  }
  const int reason = errno;
  [[maybe_unused]] const ssize_t sent = write(report_fd, &reason, sizeof reason);
  _exit(127);
}

/// errno of the failed exec, or 0: the pipe closed because the program took over.
int read_report(int fd) {
  int reason = 0;
  ssize_t count = 0;
  do count = read(fd, &reason, sizeof reason);
  while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof reason) ? reason : 0;
}

}  // namespace

std::array<UniqueFd, 2> make_pipe() {
  int ends[2];
  const int result = pipe2(ends, O_CLOEXEC);
  return owned(result, ends, "pipe");
}

std::array<UniqueFd, 2> make_message_line() {
  int ends[2];
  const int result = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
  return owned(result, ends, "socket");
}

std::string find_program(const std::string& name, const std::string& search_path) {
  if (name.empty())
    throw ConfigError("the name of the program to start is empty.", "name it after `--`.");
  if (name.find('/') != std::string::npos) {
    check_executable(name);
    return name;
  }
  std::istringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (is_file(path) && access(path.c_str(), X_OK) == 0) return path;
  }
  const std::string fix = is_file(name) ? text("write ./", name, " for the file in this directory.")
                                        : "check the name after `--`, or give its path.";
  throw ConfigError(text("cannot run ", name, ": no such program in PATH."), fix);
}

pid_t start_child(const ChildStart& start) {
  std::vector<std::string> words = start.command;
  std::vector<std::string> variables;
  for (const auto& [name, value] : *start.environment) variables.push_back(text(name, "=", value));
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(variables);
  auto [report, reporting] = make_pipe();
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_program(start, argv.data(), envp.data(), launcher, reporting.get());
  const int fork_error = errno;
  reporting.reset();
  if (pid < 0) {
    throw EnvironmentError(text("cannot start a process: ", std::strerror(fork_error), "."),
                           "raise the limit of processes (ulimit -u) or start fewer workers.");
  }
  setpgid(pid, pid);  // the child does it, too: whoever comes first
  const int reason = read_report(report.get());
  if (reason != 0) {
    waitpid(pid, nullptr, 0);
    throw ConfigError(text("cannot run ", start.program, ": ", std::strerror(reason), "."),
                      "check that the file was built for this machine, and that the interpreter "
                      "in its first line exists.");
  }
  return pid;
}

std::string describe(const ChildEnd& end) {
  if (end.signal == 0) return text("exited with code ", end.code);
  return text("was killed by signal ", end.signal, " (", strsignal(end.signal), ")");
}

bool is_loss(const ChildEnd& end) { return end.signal != 0 || end.code == kExitPeerLost; }

}  // namespace troupe
