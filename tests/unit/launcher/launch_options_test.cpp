#include "troupe/launcher/run/launch_options.h"

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace launch_options_test {

namespace {

/// What the options before `-- train MORE...` amount to, or why they are refused.
std::string read(std::vector<std::string> words, const troupe::Environment& environment = {},
                 const std::vector<std::string>& more = {}) {
  words.insert(words.end(), {"--", "train"});
  words.insert(words.end(), more.begin(), more.end());
  try {
    const troupe::LaunchOptions options = troupe::parse_launch_options(words, environment);
    return std::to_string(options.min_workers) + " " +
           std::to_string(options.regroup_limit.count());
  } catch (const troupe::ConfigError& error) {
    return error.what();
  }
}

struct Row {
  std::vector<std::string> words;
  std::string part;
  troupe::Environment environment = {};
  std::vector<std::string> more = {};
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const std::string answer = read(row.words, row.environment, row.more);
    CHECK_MESSAGE(answer.find(row.part) != std::string::npos, row.part, ": ", answer);
  }
}

const std::string kAccepted = "0 60000";

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("troupe run: what several machines and restarts exclude, and what they need") {
    check({{{"--workers", "2", "--max-restarts", "3"}, "add --model-dir DIR"},
           {{"--workers", "2", "--max-restarts", "3"}, kAccepted, {{"TROUPE_MODEL_DIR", "d"}}},
           {{"--workers", "2", "--max-restarts", "3"}, kAccepted, {}, {"--model_dir=d"}},
           {{"--workers", "2", "--ps", "1", "--max-restarts", "3"}, "--restart-workers"},
           {{"--workers", "2", "--nodes", "2", "--node", "2"}, "from 0 on"},
           {{"--workers", "2", "--nodes", "2"}, "--rendezvous"},
           {{"--workers", "2", "--nodes", "2", "--rendezvous", "a:1"}, "troupe secret"},
           {{"--workers", "2", "--nodes", "2", "--rendezvous", "a:1"},
            kAccepted,
            {{"TROUPE_SECRET_FILE", "f"}}},
           {{"--workers", "2", "--nodes", "2", "--ps", "1"}, "cluster file"}});
  }

  TEST_CASE("troupe run: elastic groups are without servers, and large enough") {
    const std::vector<std::string> dir = {"--model-dir", "d"};
    check({{{"--workers", "4"}, kAccepted, {}, dir},
           {{"--workers", "4", "--min-workers", "4", "--evaluator"}, "4 60000", {}, dir},
           {{"--workers", "4", "--min-workers", "1", "--regroup-secs", "7", "--max-restarts", "2"},
            "1 7000",
            {},
            dir},
           {{"--workers", "4", "--min-workers", "5"}, "at least as many", {}, dir},
           {{"--workers", "4", "--min-workers", "0"}, "--min-workers", {}, dir},
           {{"--workers", "4", "--regroup-secs", "7"}, "without --min-workers", {}, dir},
           {{"--workers", "4", "--min-workers", "2", "--ps", "1"}, "--restart-workers", {}, dir},
           // How many the others have only node 0 learns.
           {{"--workers", "2", "--nodes", "2", "--rendezvous", "a:1", "--secret-file", "f",
             "--min-workers", "3"},
            "3 60000",
            {},
            dir}});
  }
}

}  // namespace launch_options_test
