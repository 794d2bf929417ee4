#include "troupe/launcher/run/launch_options.h"

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace launch_options_test {

namespace {

using troupe::ConfigError;
}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("troupe run: what several machines and restarts exclude, and what they need") {
    const auto why = [](std::vector<std::string> words,
                        const troupe::Environment& environment = {}) {
      words.insert(words.end(), {"--", "train"});
      try {
        (void)troupe::parse_launch_options(words, environment);
      } catch (const ConfigError& error) {
        return std::string(error.what());
      }
      return std::string("accepted");
    };
    const auto has = [](const std::string& whole, const char* part) {
      return whole.find(part) != std::string::npos;
    };
    CHECK(has(why({"--workers", "2", "--max-restarts", "3"}), "add --model-dir DIR"));
    CHECK(why({"--workers", "2", "--max-restarts", "3"}, {{"TROUPE_MODEL_DIR", "d"}}) ==
          "accepted");
    CHECK_NOTHROW((void)troupe::parse_launch_options(
        {"--workers", "2", "--max-restarts", "3", "--", "train", "--model_dir=d"}));
    CHECK(has(why({"--workers", "2", "--ps", "1", "--max-restarts", "3"}), "--restart-workers"));
    CHECK(has(why({"--workers", "2", "--nodes", "2", "--node", "2"}), "from 0 on"));
    CHECK(has(why({"--workers", "2", "--nodes", "2"}), "--rendezvous"));
    CHECK(has(why({"--workers", "2", "--nodes", "2", "--rendezvous", "a:1"}), "troupe secret"));
    CHECK(why({"--workers", "2", "--nodes", "2", "--rendezvous", "a:1"},
              {{"TROUPE_SECRET_FILE", "f"}}) == "accepted");
    CHECK(has(why({"--workers", "2", "--nodes", "2", "--ps", "1"}), "cluster file"));
  }

  TEST_CASE("troupe run: elastic groups are without servers, and large enough") {
    const auto why = [](std::vector<std::string> words) {
      words.insert(words.end(), {"--", "train", "--model-dir", "d"});
      try {
        const troupe::LaunchOptions options = troupe::parse_launch_options(words);
        return std::to_string(options.min_workers) + " " +
               std::to_string(options.regroup_limit.count());
      } catch (const ConfigError& error) {
        return std::string(error.what());
      }
    };
    const auto has = [](const std::string& whole, const char* part) {
      return whole.find(part) != std::string::npos;
    };
    CHECK(why({"--workers", "4"}) == "0 60000");
    CHECK(why({"--workers", "4", "--min-workers", "4", "--evaluator"}) == "4 60000");
    CHECK(why({"--workers", "4", "--min-workers", "1", "--regroup-secs", "7", "--max-restarts",
               "2"}) == "1 7000");
    CHECK(has(why({"--workers", "4", "--min-workers", "5"}), "at least as many"));
    CHECK(has(why({"--workers", "4", "--min-workers", "0"}), "--min-workers"));
    CHECK(has(why({"--workers", "4", "--regroup-secs", "7"}), "without --min-workers"));
    CHECK(has(why({"--workers", "4", "--min-workers", "2", "--ps", "1"}), "--restart-workers"));
    // How many the others have only node 0 learns.
    CHECK(why({"--workers", "2", "--nodes", "2", "--rendezvous", "a:1", "--secret-file", "f",
               "--min-workers", "3"}) == "3 60000");
  }
}

}  // namespace launch_options_test
