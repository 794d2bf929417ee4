// --transport through the real command line: the same sums by each, and what is said of it.
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test

ProcessResult run_three(std::vector<std::string> words, const ProcessOptions& options = {}) {
  words.insert(words.begin(),
               {kTool, "run", "--workers", "3", "--no-prefix", "--", TROUPE_TRANSPORT_WORKER});
  return run_process(words, options);
}

// The digests that the workers printed, by rank.
std::map<std::string, std::string> digests_in(const std::string& out) {
  std::map<std::string, std::string> digests;
  std::istringstream lines(out);
  for (std::string word, rank; lines >> word;) {
    if (word == "digest" && lines >> rank) lines >> digests[rank];
  }
  return digests;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("--transport: every one gives the same bits on all workers, and the chief names it") {
    const std::map<std::string, std::string> said = {
        {"auto", "values travel between workers by shared memory (all 3 are on this machine)"},
        {"shm", "values travel between workers by shared memory (all 3 are on this machine)"},
        {"unix", "values travel between workers by Unix sockets"},
        {"tcp", "values travel between workers by TCP (--transport tcp)"}};
    std::set<std::string> all;
    for (const auto& [name, line] : said) {
      const ProcessResult result = run_three({"--transport", name, "--log-level", "debug"});
      CAPTURE(name);
      CAPTURE(result.err);
      CHECK(result.exit_code == 0);
      CHECK(has(result.err, line));
      const auto digests = digests_in(result.out);
      CHECK(digests.size() == 3);
      for (const auto& [rank, digest] : digests) all.insert(digest);
    }
    CHECK(all.size() == 1);
  }

  TEST_CASE("--transport: by variable, and one that does not exist") {
    ProcessOptions by_variable;
    by_variable.set["TROUPE_TRANSPORT"] = "unix";
    CHECK(has(run_three({}, by_variable).err, "by Unix sockets"));
    const ProcessResult unknown = run_three({"--transport", "pigeon"});
    CHECK(unknown.exit_code == 2);
    CHECK(has(unknown.err, "give auto, tcp, unix or shm"));
  }
}
