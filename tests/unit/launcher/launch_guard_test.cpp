#include "troupe/launcher/run/launch_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/test_prelude.h"
#include "troupe/launcher/run/launch_options.h"

namespace launch_guard_test {
namespace {

/// A launcher that starts as many groups as it may, has them watched and is killed. The groups hold
/// `alive` open.
[[noreturn]] void be_launcher(int alive) {
  const troupe::LaunchGuard guard;
  for (int i = 0; i < troupe::kMaxLocalProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close_range(static_cast<unsigned>(alive) + 1, ~0U, 0);  // the guard's pipe among them
      setpgid(0, 0);
      alarm(60);
      for (;;) pause();
    }
    if (child < 0) _exit(1);
    setpgid(child, child);
    guard.watch(child);
  }
  close(alive);
  for (;;) raise(SIGKILL);
}

TEST_SUITE("launcher") {
  TEST_CASE("guard: as many processes as a launcher may start die with it") {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const pid_t launcher = fork();
    if (launcher == 0) be_launcher(ends[1]);
    close(ends[1]);
    int status = 0;
    REQUIRE(waitpid(launcher, &status, 0) == launcher);
    CHECK(WIFSIGNALED(status));  // it got as far
    pollfd end{ends[0], POLLIN, 0};
    CHECK(poll(&end, 1, 30'000) == 1);  // nobody holds it any more
    close(ends[0]);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
}

}  // namespace
}  // namespace launch_guard_test
