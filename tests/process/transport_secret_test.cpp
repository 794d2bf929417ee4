// While a group meets and sums, its secret is nowhere but in its processes' memory. A training's
// checkpoints and evaluator: secret_hygiene_test.cpp.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/eventually.h"
#include "tests/support/secret_search.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("secret: in no argument, variable, mapping, log or output of a group") {
    const TempDir dir;
    const std::filesystem::path logs = dir / "logs";
    const std::string go = (dir / "go").string();
    const std::string mark = "SECRET_TEST_MARK=" + std::to_string(getpid());
    // Worker 1 comes when it has been looked at what worker 0 shows while it waits.
    Process run(
        {kTool, "run", "--workers", "2", "--log-dir", logs.string(), "--", "/bin/sh", "-c",
         "test \"$TROUPE_RANK\" = 0 || { echo waits; until test -e " + go +
             "; do sleep 0.02; done; }; exec " TROUPE_TRANSPORT_WORKER " --log-level debug"},
        {{{"SECRET_TEST_MARK", std::to_string(getpid())}}, {}, ""});
    REQUIRE(run.wait_for_output("[worker/1] waits"));
    const std::vector<std::string> held = secret_files(std::to_string(run.pid()));
    REQUIRE(held.size() == 1);
    const std::string secret = content_of(held[0]);
    REQUIRE(secret.size() == 32);
    const std::vector<std::string> needles = needles_of(secret);
    const std::string chief = process_with(mark, "TROUPE_RANK=0");
    REQUIRE_FALSE(chief.empty());
    // It has read the secret, and closed it.
    CHECK(eventually([&] { return secret_files(chief).empty(); }));
    CHECK(troupe::join(places_of(needles, dir.path())) == "");

    std::ofstream(go) << "go";
    const ProcessResult result = run.wait();
    CAPTURE(result.exit_code);
    CHECK(count_of(result.out, "digest ") == 2);
    std::vector<std::string> hits = places_of(needles, dir.path());
    search(result.out, "stdout", needles, hits);
    search(result.err, "stderr", needles, hits);
    CHECK(troupe::join(hits) == "");
    // The search finds what is there.
    std::ofstream(dir / "careless", std::ios::binary) << secret;
    CHECK(troupe::join(places_of(needles, dir.path())) == (dir / "careless").string());
  }
}
