#include "launcher/launch_guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "launcher/launch.h"

namespace troupe {
namespace {

/// Everything but the pipe, which becomes stdin: a guard that held the launcher's output open would
/// keep its reader waiting.
void keep_only(int pipe_fd) {
  const int null = open("/dev/null", O_RDWR);  // NOLINT: POSIX is variadic
  dup2(pipe_fd, 0);
  dup2(null, 1);
  dup2(null, 2);
  const long limit = sysconf(_SC_OPEN_MAX);
  if (close_range(3, ~0U, 0) != 0)  // kernels before 5.9
    for (int fd = 3; fd < static_cast<int>(limit > 0 ? limit : 1024); ++fd) close(fd);
}

[[noreturn]] void guard(int pipe_fd) {
  setsid();  // neither Ctrl-C nor a kill of the launcher's group ends it
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) signal(number, SIG_IGN);
  prctl(PR_SET_NAME, "troupe-guard");
  keep_only(pipe_fd);
  static pid_t leaders[kMaxLocalWorkers];  // no heap: this runs between fork and _exit
  int count = 0;
  for (;;) {
    pid_t message = 0;
    const ssize_t length = read(0, &message, sizeof message);
    if (length < 0 && errno == EINTR) continue;
    if (length != static_cast<ssize_t>(sizeof message)) break;
    if (message > 0 && count < kMaxLocalWorkers) leaders[count++] = message;
    for (int i = 0; i < count; ++i)
      if (leaders[i] == -message) leaders[i] = leaders[--count];
  }
  for (int i = 0; i < count; ++i) kill(-leaders[i], SIGKILL);
  _exit(0);
}

}  // namespace

LaunchGuard::LaunchGuard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw EnvironmentError(text("cannot make a pipe: ", std::strerror(errno), "."),
                           "raise the limit of open files (ulimit -n).");
  pid_ = fork();
  if (pid_ == 0) guard(ends[0]);
  const int fork_error = errno;
  close(ends[0]);
  fd_ = ends[1];
  if (pid_ < 0) {
    close(fd_);
    throw EnvironmentError(text("cannot start a process: ", std::strerror(fork_error), "."),
                           "raise the limit of processes (ulimit -u).");
  }
}

LaunchGuard::~LaunchGuard() {
  close(fd_);
  while (pid_ > 0 && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void LaunchGuard::send(pid_t message) const {
  ssize_t sent = 0;  // a few bytes to a reader that does nothing else: never blocks for long
  do sent = write(fd_, &message, sizeof message);
  while (sent < 0 && errno == EINTR);
}

void LaunchGuard::watch(pid_t leader) const { send(leader); }
void LaunchGuard::forget(pid_t leader) const { send(-leader); }

}  // namespace troupe
