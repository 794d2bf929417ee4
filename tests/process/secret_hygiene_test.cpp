// While a group trains, its secret is nowhere but in its processes' memory: not in an argument, a
// variable, the name of a mapping, a log, a checkpoint or the output; and the evaluator has none.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/secret_search.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace secret_hygiene_test {

namespace {

using namespace troupe::testing;  // NOLINT: a test
namespace fs = std::filesystem;

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("secret: in no argument, variable, mapping, log, checkpoint or output of a training") {
    const TempDir dir;
    const TempDir keys;
    const std::string given = (keys / "key").string();
    for (const bool drawn : {true, false}) {
      CAPTURE(drawn);
      const fs::path folder = dir / (drawn ? "drawn" : "given");
      const std::string mark = std::to_string(getpid()) + (drawn ? "-drawn" : "-given");
      Words command = {
          kTool, "run", "--workers", "2", "--evaluator", "--log-dir", (folder / "logs").string()};
      if (!drawn) {
        std::ofstream(given, std::ios::binary)
            << std::string("\x01\xfe\x80", 3) + "0/the-secret-of-this-test+9\n!";
        fs::permissions(given, fs::perms::owner_read | fs::perms::owner_write);
        command = command + Words{"--secret-file", given};
      }
      command = command + Words{"--",
                                kBuild + "/examples/linear_regression",
                                "--mode",
                                "train-and-evaluate",
                                "--model-dir",
                                (folder / "run").string(),
                                "--max-steps",
                                "100000000",
                                "--save-every",
                                "50",
                                "--log-level",
                                "debug",
                                "--log-every",
                                "50",
                                "--start-delay-secs",
                                "0",
                                "--throttle-secs",
                                "0.1"};
      ProcessOptions options;
      options.set["SECRET_TEST_MARK"] = mark;
      Process run(command, options);
      REQUIRE(run.wait_for_output("[evaluator/0]", kLimit));
      REQUIRE(run.wait_for_output("step = 200 (", kLimit));
      const std::string variable = "SECRET_TEST_MARK=" + mark;
      const std::vector<std::string> held = secret_files(std::to_string(run.pid()));
      REQUIRE(held.size() == 1);
      const std::string secret = content_of(held[0]);
      REQUIRE(secret.size() >= 32);
      if (!drawn) CHECK(secret == content_of(given));
      const std::vector<std::string> needles = needles_of(secret);

      for (const char* which : {"TROUPE_RANK=0", "TROUPE_RANK=1", "TROUPE_TASK=evaluator:0"}) {
        CAPTURE(which);
        const std::string process = process_with(variable, which);
        REQUIRE_FALSE(process.empty());
        CHECK(secret_files(process).empty());  // a worker has read it and closed it
      }
      CHECK(troupe::join(places_of(needles, folder)) == "");
      // The search finds what is there.
      for (std::size_t i = 1; i < needles.size(); ++i) {
        Process careless({"/bin/sh", "-c", "echo ready; kill -STOP $$"},
                         {{{"CARELESS", needles[i]}}, {}, ""});
        REQUIRE(careless.wait_for_output("ready"));
        CHECK_FALSE(places_of(needles, folder).empty());
      }
      std::ofstream(folder / "careless", std::ios::binary) << secret;
      CHECK(troupe::join(places_of(needles, folder)) == (folder / "careless").string());

      run.signal(SIGTERM);
      const ProcessResult result = run.wait(kLimit);
      CHECK(result.exit_code == 143);
      std::vector<std::string> hits;
      search(result.out, "stdout", needles, hits);
      search(result.err, "stderr", needles, hits);
      CHECK(troupe::join(hits) == "");
    }
  }
}

}  // namespace secret_hygiene_test
