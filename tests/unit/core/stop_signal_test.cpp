#include "troupe/core/stop_signal.h"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"

namespace stop_signal_test {

namespace {

using troupe::kSameRequest;
using troupe::kStopSignals;
using troupe::StopSignal;

/// How a process that runs `body` and then exits with 0 ends: its code, or 128 + a signal.
int end_of(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGHUP, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_SUITE("stop signal") {
  TEST_CASE(
      "stop signal: each is a request while the object lives, and ends the process after it") {
    for (const int number : kStopSignals) {
      CAPTURE(number);
      CHECK(end_of([number] {
              const StopSignal stop;
              if (stop.requested() != 0) _exit(1);
              std::raise(number);
              _exit(stop.requested() == number ? 0 : 2);
            }) == 0);
      CHECK(end_of([number] {
              { const StopSignal stop; }
              std::raise(number);
            }) == 128 + number);
    }
  }

  TEST_CASE("stop signal: a second SIGINT ends the process, and no other repetition does") {
    for (const int first : kStopSignals) {
      for (const int second : kStopSignals) {
        CAPTURE(first);
        CAPTURE(second);
        const int code = end_of([first, second] {
          const StopSignal stop;
          std::raise(first);
          troupe::testing::take_time(2 * kSameRequest);  // the time is the subject
          std::raise(second);
          _exit(stop.requested() == first ? 0 : 2);
        });
        CHECK(code == (second == SIGINT ? 128 + SIGINT : 0));
      }
    }
  }

  TEST_CASE("stop signal: the same signal twice within a moment is one request, as of timeout") {
    CHECK(end_of([] {
            const StopSignal stop;
            std::raise(SIGINT);
            std::raise(SIGINT);
          }) == 0);
  }

  TEST_CASE("stop signal: an ignored SIGHUP stays ignored, as under nohup") {
    CHECK(end_of([] {
            std::signal(SIGHUP, SIG_IGN);
            const StopSignal stop;
            std::raise(SIGHUP);
            _exit(stop.requested());
          }) == 0);
  }

  TEST_CASE("stop signal: names") {
    CHECK(troupe::signal_name(SIGTERM) == "SIGTERM");
    CHECK(troupe::signal_name(SIGINT) == "SIGINT");
    CHECK(troupe::signal_name(SIGHUP) == "SIGHUP");
  }
}

}  // namespace stop_signal_test
