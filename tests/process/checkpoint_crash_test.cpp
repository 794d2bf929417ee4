// Kills and fails a process at every system call of saving a checkpoint, with strace.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/train/checkpoint_samples.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/train/checkpoint/checkpoint_writer.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using troupe::CheckpointWriter;
using troupe::PosixFileSystem;
using troupe::text;

using Names = std::vector<std::string>;

bool strace_works() {
  const ProcessResult result = run_process({"strace", "-o", "/dev/null", "/bin/true"});
  if (result.exit_code == 0) return true;
  MESSAGE("skipped: strace does not run here (exit code " << result.exit_code << ")");
  return false;
}

// A model directory with steps 1 and 2, of which step 0 has been retired.
void prepare(const std::string& directory) {
  PosixFileSystem files(directory);
  CheckpointWriter writer(files, troupe::this_process(1), {2});
  for (std::int64_t step = 0; step < 3; ++step) save_sample(writer, step);
}

struct Calls {
  int before = 0;  // made by the loader
  int all = 0;
};

// The leak check of an address-sanitised build does not work under ptrace.
ProcessResult run_traced(const std::vector<std::string>& command) {
  troupe::testing::ProcessOptions options;
  options.set["ASAN_OPTIONS"] = "detect_leaks=0";
  return run_process(command, options);
}

// How often each call is made by an undisturbed saver.
std::map<std::string, Calls> count_calls(const TempDir& dir) {
  std::filesystem::copy(dir / "base", dir / "count", std::filesystem::copy_options::recursive);
  const std::string log = (dir / "trace").string();
  const ProcessResult result =
      run_traced({"strace", "-o", log, TROUPE_CHECKPOINT_SAVER, (dir / "count").string(), "3"});
  REQUIRE(result.exit_code == 0);
  std::map<std::string, Calls> counts;
  bool started = false;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    started = started || line.find("/checkpoint-crash-saver-starts") != std::string::npos;
    Calls& calls = counts[line.substr(0, line.find('('))];
    ++calls.all;
    if (!started) ++calls.before;
  }
  REQUIRE(started);
  return counts;
}

bool anything_half_written(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".tmp") != std::string::npos || name.find(".del-") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// Runs the saver of step 3 with `fault` at every call; `check` sees how it ended and what is
// newest.
template <class Check>
int at_every_call(const Names& names, const std::string& fault, const Check& check) {
  const TempDir dir;
  prepare((dir / "base").string());
  std::map<std::string, Calls> counts = count_calls(dir);
  int cases = 0;
  for (const std::string& call : names) {
    CAPTURE(call);
    CHECK(counts[call].all > counts[call].before);
    for (int n = counts[call].before + 1; n <= counts[call].all; ++n, ++cases) {
      CAPTURE(n);
      const std::string model_dir = (dir / text(call, n)).string();
      std::filesystem::copy(dir / "base", model_dir, std::filesystem::copy_options::recursive);
      const ProcessResult result = run_traced({"strace", "-o", "/dev/null", "-e", "trace=" + call,
                                               "-e", text("inject=", call, ":", fault, ":when=", n),
                                               TROUPE_CHECKPOINT_SAVER, model_dir, "3"});
      PosixFileSystem files(model_dir);
      check(result, newest(files), model_dir);
      CheckpointWriter next(files, troupe::this_process(2), {2});
      save_sample(next, 3);
      CHECK_FALSE(anything_half_written(model_dir));
      CHECK(newest(files) == 3);
    }
  }
  return cases;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("checkpoint: killed at every system call, the last or the new one is there, whole") {
    const Silence silence;
    if (!strace_works()) return;
    const int cases = at_every_call(
        {"openat", "write", "fsync", "renameat", "unlinkat", "mkdirat", "ftruncate", "flock"},
        "signal=KILL",
        [](const ProcessResult& result, const std::optional<std::int64_t>& found,
           const std::string&) {
          CHECK(result.exit_code == 128 + SIGKILL);
          CHECK((found == 2 || found == 3));
        });
    CHECK(cases > 60);
  }

  TEST_CASE("checkpoint: a system call that fails is reported, and the last one stays") {
    const Silence silence;
    if (!strace_works()) return;
    struct Row {
      const char* name;
      int number;
      Names calls;
    };
    const Row rows[] = {{"ENOSPC", ENOSPC, {"write", "fsync", "mkdirat", "ftruncate"}},
                        {"EIO", EIO, {"fsync", "renameat", "unlinkat", "flock"}},
                        {"EMFILE", EMFILE, {"openat"}}};
    int failed = 0;
    for (const Row& row : rows) {
      CAPTURE(row.number);
      at_every_call(
          row.calls, text("error=", row.name),
          [&](const ProcessResult& result, const auto& found, const std::string& model_dir) {
            CAPTURE(result.err);
            CHECK((result.exit_code == 0 || result.exit_code == 1));
            CHECK((found == 3 || (found == 2 && result.exit_code == 1)));
            if (result.exit_code == 0) return;
            ++failed;
            CHECK(result.err.find("'" + model_dir) != std::string::npos);
            CHECK(result.err.find(std::strerror(row.number)) != std::string::npos);
            CHECK((row.number != ENOSPC || result.err.find(" bytes free)") != std::string::npos));
          });
    }
    CHECK(failed > 30);
  }

  TEST_CASE("checkpoint: an interrupted system call is repeated") {
    const Silence silence;
    if (!strace_works()) return;
    at_every_call(
        {"openat", "write", "fsync", "close", "renameat", "unlinkat", "mkdirat", "ftruncate"},
        "error=EINTR",
        [](const ProcessResult& result, const std::optional<std::int64_t>& found,
           const std::string&) {
          CAPTURE(result.err);
          CHECK(result.exit_code == 0);
          CHECK(found == 3);
        });
  }
}
