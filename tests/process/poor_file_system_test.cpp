// File systems that cannot make directories durable, or have no locks, as network ones may be:
// training goes on, and says once what that means.
#include <signal.h>

#include <cerrno>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/training_runs.h"

namespace poor_file_system_test {

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

ProcessOptions poor(const char* call, int error) {
  ProcessOptions options;
  options.set["LD_PRELOAD"] = TROUPE_POOR_FILE_SYSTEM;
  options.set[call] = std::to_string(error);
  return options;
}

Words training(const TempDir& model_dir, const std::string& max_steps) {
  return {kBuild + "/examples/linear_regression",
          "--model-dir",
          model_dir.path().string(),
          "--save-every",
          "5",
          "--max-steps",
          max_steps,
          "--epochs",
          "1000000000",
          "--log-every",
          "0"};
}

int count_of(const std::string& words, const std::string& log) {
  int count = 0;
  for (auto at = log.find(words); at != std::string::npos; at = log.find(words, at + 1)) ++count;
  return count;
}

/// Trains, resumes, and comes to what an undisturbed run comes to; each run warns once.
void check_trains(const ProcessOptions& options, const std::string& warning) {
  const TempDir whole;
  const std::string hash = hash_in(run_process(training(whole, "20"), {}, kLimit).err);
  const TempDir model_dir;
  const ProcessResult first = run_process(training(model_dir, "10"), options, kLimit);
  const ProcessResult second = run_process(training(model_dir, "20"), options, kLimit);
  for (const ProcessResult* run : {&first, &second}) {
    INFO(run->err);
    CHECK(run->exit_code == 0);
    CHECK(count_of(warning, run->err) == 1);
  }
  CHECK(hash_in(second.err) == hash);
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("file systems: where a directory cannot be made durable, training warns once") {
    for (const int error : {EINVAL, EOPNOTSUPP, ENOSYS, EPERM}) {
      CAPTURE(error);
      check_trains(poor("POOR_FSYNC", error), "cannot make a directory durable");
    }
  }

  TEST_CASE("file systems: a directory whose sync fails for another reason is an error") {
    const TempDir model_dir;
    const auto result = run_process(training(model_dir, "10"), poor("POOR_FSYNC", EIO), kLimit);
    CHECK(result.exit_code != 0);
    CHECK(has(result.err, "cannot sync"));
  }

  TEST_CASE("file systems: without locks training warns once, and the record keeps others out") {
    for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL}) {
      CAPTURE(error);
      check_trains(poor("POOR_FLOCK", error), "has no locks");
    }
    const auto options = poor("POOR_FLOCK", ENOLCK);
    const TempDir model_dir;
    Process first(training(model_dir, "100000000"), options);
    REQUIRE(first.wait_for_output("model.ckpt-5 "));
    const auto second = run_process(training(model_dir, "20"), options, kLimit);
    INFO(second.err);
    CHECK(second.exit_code == 3);
    CHECK(has(second.err, "is in use"));
    // Its record stays, and its process lives no more.
    first.signal(SIGKILL);
    (void)first.wait();
    const auto third = run_process(training(model_dir, "5"), options, kLimit);
    INFO(third.err);
    CHECK(third.exit_code == 0);
  }
}

}  // namespace poor_file_system_test
