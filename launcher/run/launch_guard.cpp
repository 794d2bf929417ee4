#include "troupe/launcher/run/launch_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/launcher/run/launch_child.h"
#include "troupe/launcher/run/launch_options.h"

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

/// Milliseconds for poll() until a time of the steady clock; -1: for ever.
int milliseconds_until(std::int64_t until_ns) {
  if (until_ns == std::numeric_limits<std::int64_t>::max()) return -1;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  if (now >= until_ns) return 0;
  return static_cast<int>(std::min<std::int64_t>((until_ns - now) / 1'000'000 + 1, 60'000));
}

}  // namespace

/// No heap: this runs between fork and _exit.
void LaunchGuard::guard(int pipe_fd) {
  setsid();  // neither Ctrl-C nor a kill of the launcher's group ends it
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) signal(number, SIG_IGN);
  prctl(PR_SET_NAME, "troupe-guard");
  keep_only(pipe_fd);
  static pid_t leaders[kMaxLocalProcesses];
  int count = 0;
  std::int64_t until_ns = std::numeric_limits<std::int64_t>::max();
  for (;;) {
    pollfd waited{0, POLLIN, 0};
    // With nothing left to kill it waits for the next message, however long ago the lease ended.
    const int ready = poll(&waited, 1, count == 0 ? -1 : milliseconds_until(until_ns));
    if (ready == 0 && milliseconds_until(until_ns) == 0)
      for (; count > 0; --count) kill(-leaders[count - 1], SIGKILL);
    if (ready <= 0) continue;
    Message message;
    const ssize_t length = read(0, &message, sizeof message);
    if (length < 0 && errno == EINTR) continue;
    if (length != static_cast<ssize_t>(sizeof message)) break;
    if (message.leader == 0) until_ns = message.until_ns;
    if (message.leader > 0 && count < kMaxLocalProcesses) leaders[count++] = message.leader;
    for (int i = 0; i < count; ++i)
      if (leaders[i] == -message.leader) leaders[i] = leaders[--count];
  }
  for (int i = 0; i < count; ++i) kill(-leaders[i], SIGKILL);
  _exit(0);
}

LaunchGuard::LaunchGuard() {
  auto [of_guard, own] = make_pipe();
  pid_ = fork();
  if (pid_ == 0) guard(of_guard.get());
  if (pid_ < 0)
    throw EnvironmentError(text("cannot start a process: ", std::strerror(errno), "."),
                           "raise the limit of processes (ulimit -u).");
  fd_ = std::move(own);
}

LaunchGuard::~LaunchGuard() {
  fd_.reset();
  while (pid_ > 0 && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void LaunchGuard::send(const Message& message) const {
  ssize_t sent = 0;  // a few bytes to a reader that does nothing else: never blocks for long
  do sent = write(fd_.get(), &message, sizeof message);
  while (sent < 0 && errno == EINTR);
}

void LaunchGuard::watch(pid_t leader) const { send({leader}); }
void LaunchGuard::forget(pid_t leader) const { send({-leader}); }

void LaunchGuard::allow_until(std::chrono::steady_clock::time_point when) const {
  using std::chrono::nanoseconds;
  send({0, std::chrono::duration_cast<nanoseconds>(when.time_since_epoch()).count()});
}

}  // namespace troupe
