// Ctrl-C, a closed terminal and SIGTERM, through the real command line: the state is saved at the
// step that the run stops at, and the same command goes on as if nothing had been.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace stopping_test {

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

/// How a program is started: alone, or by the launcher.
struct Start {
  const char* name;
  Words before;
  Words flags;
};

const Start kAlone{"alone", {}, {}};
const Start kTwo{
    "two workers", {kBuild + "/troupe", "run", "--workers", "2", "--no-prefix", "--"}, {}};
const Start kServers{
    "two workers and a server",
    {kBuild + "/troupe", "run", "--workers", "2", "--ps", "1", "--no-prefix", "--"},
    {"--strategy", "parameter-server", "--staleness-bound", "0"}};

/// It saves at the start, at the end, and when it is stopped.
Words command(const Start& start, const TempDir& model_dir, long max_steps) {
  return start.before + kMnist +
         Words{"--batch-size",
               "100",
               "--train-examples",
               "1003",
               "--json-summary",
               "--model-dir",
               model_dir.path().string(),
               "--log-every",
               "1",
               "--max-steps",
               std::to_string(max_steps)} +
         start.flags;
}

/// The step of the newest checkpoint.
long newest(const TempDir& model_dir) {
  const std::string name = "model.ckpt-";
  long step = -1;
  for (const auto& entry : std::filesystem::directory_iterator(model_dir.path())) {
    const std::string file = entry.path().filename().string();
    if (file.rfind(name, 0) == 0) step = std::max(step, std::stol(file.substr(name.size())));
  }
  return step;
}

nlohmann::json run_to(const Start& start, const TempDir& model_dir, long max_steps) {
  return summary(run_process(command(start, model_dir, max_steps), {}, kLimit));
}

}  // namespace

TEST_SUITE("stopping") {
  TEST_CASE("stopping: SIGINT, SIGHUP and SIGUSR1 save on one step, and the next start goes on") {
    struct Row {
      const Start& start;
      int signal;
      int means;
      const char* name;
    };
    // Every way to start. That the launcher passes on each: launch_test.cpp.
    for (const Row& row : {Row{kAlone, SIGHUP, SIGHUP, "SIGHUP"},
                           {kTwo, SIGINT, SIGINT, "SIGINT"},
                           {kServers, SIGINT, SIGINT, "SIGINT"},
                           {kAlone, SIGUSR1, SIGTERM, "SIGTERM"},
                           {kTwo, SIGUSR1, SIGTERM, "SIGTERM"}}) {
      CAPTURE(row.start.name);
      CAPTURE(row.name);
      const TempDir dir;
      Process run(command(row.start, dir, 1'000'000));
      REQUIRE(run.wait_for_output("step = 3 (", kLimit));
      ::kill(-run.pid(), row.signal);  // to the whole group, as a terminal does
      const auto stopped = run.wait(kLimit);
      CAPTURE(stopped.err);
      CHECK(stopped.signal == 0);
      CHECK(stopped.exit_code == 128 + row.means);
      CHECK(stopped.err.find("instead of stopping cleanly") == std::string::npos);
      const long step = newest(dir);
      CHECK(step >= 3);
      CHECK(stopped.err.find(std::string("error[stopped]: ") + row.name +
                             ": all workers stopped after step " + std::to_string(step) + ";") !=
            std::string::npos);
      const TempDir whole;
      CHECK(run_to(row.start, dir, step + 9)["parameter_hash"] ==
            run_to(row.start, whole, step + 9)["parameter_hash"]);
    }
  }

  TEST_CASE("stopping: without --model-dir the first signal ends a program at once") {
    for (const int number : {SIGINT, SIGHUP, SIGTERM}) {
      Process run(kMnist + Words{"--batch-size", "100", "--train-examples", "1003", "--log-every",
                                 "1", "--max-steps", "1000000"});
      REQUIRE(run.wait_for_output("step = 3 (", kLimit));
      run.signal(number);
      CHECK(run.wait(kLimit).signal == number);
    }
    Process run(kMnist + Words{"--batch-size", "100", "--train-examples", "1003", "--log-every",
                               "1", "--max-steps", "1000000"});
    REQUIRE(run.wait_for_output("step = 3 (", kLimit));
    run.signal(SIGUSR1);  // means SIGTERM
    CHECK(run.wait(kLimit).signal == SIGTERM);
  }

  TEST_CASE("stopping: signals that the parent has blocked stop a program all the same") {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    for (const Start& start : {kAlone, kTwo}) {
      CAPTURE(start.name);
      const TempDir dir;
      pthread_sigmask(SIG_SETMASK, &all, &before);
      Process run(command(start, dir, 1'000'000));
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      REQUIRE(run.wait_for_output("step = 3 (", kLimit));
      run.signal(SIGTERM);
      const auto stopped = run.wait(kLimit);
      INFO(stopped.err);
      CHECK(stopped.exit_code == 143);
      CHECK(newest(dir) >= 3);
    }
  }
}

}  // namespace stopping_test
