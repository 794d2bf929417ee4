// The memory that a long run of a small model takes, through the real command line.
#include <sys/resource.h>

#include <string>

#include "tests/support/training_runs.h"

namespace memory_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHER_ALLOCATOR 1
#endif

namespace {

/// The largest resident memory of the programs that this process has run, in MiB.
[[maybe_unused]] long peak_after(int steps) {
  using namespace troupe::testing;  // NOLINT: a test
  const Words command = {kBuild + "/examples/linear_regression",
                         "--log-every",
                         "0",
                         "--batch-size",
                         "50",
                         "--max-steps",
                         std::to_string(steps),
                         "--epochs",
                         "1000000",
                         "--threads",
                         "1"};
  const auto result = run_process(command, {}, kLimit);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss / 1024;
}

}  // namespace

TEST_SUITE("memory") {
#ifndef OTHER_ALLOCATOR
  // ctest runs every case in a process of its own, so no larger program was run before.
  TEST_CASE("memory: a small model's process does not grow with the number of its steps") {
    const long short_run = peak_after(500);
    CHECK(peak_after(20'000) - short_run < 30);
  }
#endif
}

}  // namespace memory_test
