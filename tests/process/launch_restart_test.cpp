#include <csignal>
#include <filesystem>
#include <string>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

/// Of the start number N, from 1 on, `script` sees N in $start.
std::vector<std::string> restarting(const TempDir& folder, const std::string& most,
                                    const std::string& script) {
  std::vector<std::string> command = run_command(
      {"--workers", "2", "--max-restarts", most, "--log-dir", (folder / "logs").string()},
      "echo x >> " + (folder / "starts").string() + ".$TROUPE_RANK; start=$(wc -l < " +
          (folder / "starts").string() + ".$TROUPE_RANK); " + script);
  command.insert(command.end(), {"--model-dir", folder.path().string()});
  return command;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("troupe run: a killed worker starts the whole group again, and logs are kept") {
    const TempDir folder;
    const Marker marker;
    const ProcessResult result =
        run_process(restarting(folder, "3",
                               "echo start $start generation $TROUPE_GENERATION; "
                               "if [ $start = 1 ] && [ $TROUPE_RANK = 1 ]; then until [ -e " +
                                   (folder / "starts").string() +
                                   ".0 ]; do sleep 0.01; done; kill -9 $$; fi; "
                                   "if [ $start = 1 ]; then sleep 1000; fi"),
                    marker.options());
    CHECK(result.exit_code == 0);
    CHECK(count_of(result.err, "worker/1 was killed by signal 9 (Killed) after ") == 2);
    CHECK(count_of(result.err, "; restart 1 of 3 in 1.0 s, from the newest checkpoint.\n") == 1);
    CHECK(count_of(result.out, "] start 2 generation ") == 2);
    for (const char* log : {"worker-0.log", "worker-1.log", "worker-0.log.1", "worker-1.log.1"})
      CHECK(std::filesystem::exists(folder / "logs" / log));
    const auto generation = [&](const std::string& head) {
      const std::size_t at = result.out.find(head);
      return at == std::string::npos ? 0 : std::stoull(result.out.substr(at + head.size()));
    };
    const auto first = generation("[worker/1] start 1 generation ");
    CHECK(first > 0);
    CHECK(generation("[worker/1] start 2 generation ") > first);
    CHECK(marker.alive() == 0);
  }

  TEST_CASE("troupe run: after the last restart the exit code is that of the last start") {
    const TempDir folder;
    check_runs(
        {{"killed twice",
          restarting(folder, "1", "if [ $TROUPE_RANK = 1 ]; then kill -SEGV $$; fi; sleep 1000"),
          128 + SIGSEGV,
          {"; restart 1 of 1 in 1.0 s", "; no restart is left of 1.\n"}}});
  }

  TEST_CASE("troupe run: what a restart cannot mend is not tried again") {
    for (const char* code : {"2", "3", "7", "130", "143"}) {
      const TempDir folder;
      check_runs({{code,
                   restarting(folder, "3",
                              "if [ $TROUPE_RANK = 1 ]; then exit " + std::string(code) +
                                  "; fi; sleep 1000"),
                   std::stoi(code),
                   {{"; restart ", 0}, "; not restarted: "}}});
    }
  }

  TEST_CASE("troupe run: a signal ends a group that waits to start again") {
    const TempDir folder;
    // The third pause takes four seconds.
    check_runs({{"in a pause",
                 restarting(folder, "9", "kill -9 $$"),
                 143,
                 {},
                 {},
                 {"; restart 3 of 9 in 4.0 s"},
                 send({SIGTERM})}});
  }
}
