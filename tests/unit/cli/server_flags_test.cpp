// The flags about parameter servers and the exchange of gradients, and what they need beside them.
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/options.h"

namespace server_flags_test {

using troupe::Environment;
using troupe::ServerOptions;
using troupe::testing::contains;
using troupe::testing::parsed;
using troupe::testing::refusal;
using troupe::testing::Words;

namespace {

const Environment kThreeWorkers = {
    {"TROUPE_RANK", "1"}, {"TROUPE_WORLD_SIZE", "3"}, {"TROUPE_SERVERS", "127.0.0.1:4000"}};
const Environment kGroup = {
    {"TROUPE_RANK", "1"}, {"TROUPE_WORLD_SIZE", "3"}, {"TROUPE_CHIEF_ADDRESS", "127.0.0.1:4000"}};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("server flags: unset, they are the defaults of the struct") {
    const ServerOptions servers = parsed({}, kThreeWorkers).strategy.servers;
    CHECK_FALSE(servers.staleness_bound.has_value());
  }

  TEST_CASE("server flags: each reaches its option") {
    CHECK(parsed({"--staleness-bound", "0"}, kThreeWorkers).strategy.servers.staleness_bound == 0);
    CHECK(parsed({"--staleness_bound=7"}, kThreeWorkers).strategy.servers.staleness_bound == 7);
  }

  TEST_CASE("server flags: bad values and contradictions name the flag and the fix") {
    struct Row {
      Words words;
      const char* flag;
      const char* part;
    };
    const std::vector<Row> rows = {
        {{"--staleness-bound", "-1"}, "--staleness-bound", "from 0"},
        {{"--staleness-bound", "1.5"}, "--staleness-bound", "from 0"},
        {{"--backup-workers", "1"}, "unknown flag --backup-workers", "it was removed: synchronous"},
        {{"--communication", "gloo"}, "--communication gloo", "parameter servers sum"},
        {{"--transport", "unix"}, "--transport unix", "by TCP"},
        {{"--compress", "bf16"}, "--compress bfloat16", "as they are"},
        {{"--overlap", "on"}, "--overlap on", "parameter servers sum"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.flag);
      const std::string message = refusal(row.words, kThreeWorkers);
      CHECK(contains(message, row.flag));
      CHECK(contains(message, row.part));
    }
  }

  TEST_CASE("server flags: without parameter servers they are refused") {
    for (const Environment& environment : {Environment(), kGroup}) {
      CHECK(contains(refusal({"--staleness-bound", "0"}, environment),
                     "--staleness-bound is given, but the cluster has no parameter server"));
    }
  }

  TEST_CASE("server flags: the evaluator and the users of a model may be given them, too") {
    const Words flags = {"--strategy", "parameter_server", "--staleness-bound",
                         "0",          "--model-dir",      "/m"};
    CHECK_NOTHROW((void)parsed(with(flags, {"--mode", "evaluate"})));
    CHECK_NOTHROW(
        (void)parsed(with(flags, {"--mode", "train-and-evaluate", "--task", "evaluator"})));
  }

  TEST_CASE("strategy: every name of the table, with dashes and underscores") {
    for (const char* name : {"auto", "one-device", "one_device", "mirrored", "central-storage",
                             "central_storage", "multi-worker", "multi_worker"}) {
      CAPTURE(name);
      std::string dashed = name;
      for (char& c : dashed) c = c == '_' ? '-' : c;
      CHECK(name_of(parsed({"--strategy", name}).strategy.kind) == dashed);
    }
    for (const char* name : {"parameter-server", "parameter_server"}) {
      CHECK(parsed({"--strategy", name}, kThreeWorkers).strategy.kind ==
            troupe::StrategyKind::parameter_server);
    }
  }

  TEST_CASE("strategy: parameter-server needs servers, and says how to get them") {
    const std::string alone = refusal({"--strategy", "parameter_server"});
    CHECK(contains(alone, "no cluster is given"));
    CHECK(contains(alone, "troupe run --workers N --ps M"));
    CHECK(contains(alone, "TF_CONFIG"));
    CHECK(contains(refusal({"--strategy", "parameter-server"}, kGroup), "TROUPE_RANK has none"));
  }

  TEST_CASE("strategy: a cluster with servers goes with parameter-server or auto alone") {
    CHECK(parsed({}, kThreeWorkers).strategy.kind == troupe::StrategyKind::automatic);
    for (const char* name : {"one-device", "mirrored", "central-storage", "multi-worker"}) {
      CAPTURE(name);
      CHECK(contains(refusal({"--strategy", name}, kThreeWorkers),
                     std::string("--strategy ") + name +
                         " trains without parameter servers, but the cluster of TROUPE_RANK has 1. "
                         "Fix: use --strategy parameter-server"));
    }
    CHECK(contains(refusal({"--strategy", "central_storage"}, kGroup), "trains with one worker"));
  }

  TEST_CASE("strategy: a parameter server only trains") {
    const Environment server = {
        {"TROUPE_TASK", "ps:0"}, {"TROUPE_WORLD_SIZE", "3"}, {"TROUPE_SERVERS", "127.0.0.1:4000"}};
    CHECK_NOTHROW((void)parsed({}, server));
    CHECK_NOTHROW((void)parsed({"--mode", "train-and-evaluate", "--model-dir", "/m"}, server));
    CHECK(contains(refusal({"--mode", "evaluate", "--model-dir", "/m"}, server),
                   "makes this process a parameter server, but --mode evaluate needs none"));
  }

  TEST_CASE("must match: what workers and servers have to be told alike") {
    const auto match = parsed({"--staleness-bound", "0"}, kThreeWorkers).strategy.must_match;
    CHECK(match.at("--strategy") == "parameter-server");
    CHECK(match.at("--staleness-bound") == "0");
    CHECK(match.at("--communication") == "auto");
    CHECK(match.at("--transport") == "auto");
    CHECK(match.at("--compress") == "none");
    CHECK(parsed({"--compress", "fp16"}, kGroup).strategy.must_match.at("--compress") == "float16");
    CHECK(parsed({}, kThreeWorkers).strategy.must_match.at("--staleness-bound") == "unset");
    // Spelled or not, the strategy is the same.
    for (const Words& words : {Words{}, Words{"--strategy", "parameter_server"}}) {
      CHECK(parsed(words, kThreeWorkers).strategy.must_match.at("--strategy") ==
            "parameter-server");
    }
    for (const Words& words : {Words{}, Words{"--strategy", "multi_worker"}}) {
      CHECK(parsed(words, kGroup).strategy.must_match.at("--strategy") == "multi-worker");
    }
  }
}

}  // namespace server_flags_test
