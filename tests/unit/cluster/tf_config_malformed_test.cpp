// Documents that are wrong, each with the place and the phrase that its message must show.
#include <random>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/cluster/tf_config.h"
#include "troupe/cli/command_line.h"

namespace tf_config_malformed_test {

using troupe::testing::contains;

namespace {

struct Malformed {
  std::string document;
  std::string path;
  std::string phrase;
};

/// A cluster of these jobs and worker 0 as the task.
std::string jobs(const std::string& all) {
  return R"({"cluster": {)" + all + R"(}, "task": {"type": "worker", "index": 0}})";
}

/// A good cluster of two and this task.
std::string with_task(const std::string& task) {
  return R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": )" + task + "}";
}

std::string nested(const std::string& key, std::size_t depth) {
  return "{\"" + key + "\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
}

std::vector<Malformed> syntax_cases() {
  return {
      {"", "TF_CONFIG", "is empty, which is not valid JSON"},
      {"  \n", "TF_CONFIG", "is empty, which is not valid JSON"},
      {"{", "TF_CONFIG", "not valid JSON: parse error at line 1"},
      {"{\"cluster\": {}", "TF_CONFIG", "not valid JSON"},
      {"{\"a\": 1,}", "TF_CONFIG", "not valid JSON"},
      {"{'cluster': {}}", "TF_CONFIG", "not valid JSON"},
      {"{} x", "TF_CONFIG", "not valid JSON"},
      {"{\"a\": 01}", "TF_CONFIG", "not valid JSON"},
      {"{\"a\": NaN}", "TF_CONFIG", "not valid JSON"},
      {"{\"a\": 1e999}", "TF_CONFIG", "not valid JSON"},
      {"{// comment\n}", "TF_CONFIG", "not valid JSON"},
      {std::string("{\"a\": \"\0\"}", 10), "TF_CONFIG", "not valid JSON"},
      {std::string("\0", 1), "TF_CONFIG", "not valid JSON"},
      {"{\"a\": \"\xff\"}", "TF_CONFIG", "not valid JSON"},
      {"{\"a\": \"\\ud800\"}", "TF_CONFIG", "not valid JSON"},
      {"[]", "TF_CONFIG", "is an array, not a JSON object"},
      {"null", "TF_CONFIG", "is null, not a JSON object"},
      {"3", "TF_CONFIG", "is a number, not a JSON object"},
      {"\"{}\"", "TF_CONFIG", "is a string, not a JSON object"},
      {"{\"a\": \"" + std::string(1 << 20, 'x') + "\"}", "TF_CONFIG", "the limit is 1048576"},
      {nested("service", 64), "TF_CONFIG", "nested deeper than 64 levels"},
      {nested("unknown", 400'000), "TF_CONFIG", "nested deeper than 64 levels"},
      {R"({"task": {}, "task": {}})", "TF_CONFIG.task", "appears twice"},
      {R"({"cluster": {"worker": ["a:1"], "worker": ["b:1"]}})", "TF_CONFIG.cluster.worker",
       "appears twice"},
      {R"({"task": {"index": 0, "type": "worker", "index": 1}})", "TF_CONFIG.task.index",
       "appears twice"},
      {R"({"service": {"x": [{"y": 1, "y": 2}]}})", "TF_CONFIG.service.x.y", "appears twice"},
  };
}

std::vector<Malformed> cluster_cases() {
  return {
      {R"({"cluster": []})", "TF_CONFIG.cluster", "is an array"},
      {R"({"cluster": "a:1"})", "TF_CONFIG.cluster", "is a string"},
      {R"({"cluster": true})", "TF_CONFIG.cluster", "is true or false"},
      {R"({"cluster": {"worker": ["a:1"]}, "sparseCluster": {"worker": {"0": "a:1"}}})",
       "TF_CONFIG.sparseCluster", "keep one of the two"},
      {R"({"sparseCluster": 1})", "TF_CONFIG.sparseCluster", "is a number"},
      {jobs(R"("worker": "a:1")"), "TF_CONFIG.cluster.worker", "is a string"},
      {jobs(R"("worker": 3)"), "TF_CONFIG.cluster.worker", "is a number"},
      {jobs(R"("worker": "")"), "TF_CONFIG.cluster.worker", "is a string"},
      {jobs(R"("worker": false)"), "TF_CONFIG.cluster.worker", "is true or false"},
      {jobs(R"("worker": ["a:1", 3])"), "TF_CONFIG.cluster.worker[1]", "is a number"},
      {jobs(R"("worker": ["a:1", null])"), "TF_CONFIG.cluster.worker[1]", "is null"},
      {jobs(R"("worker": [["a:1"]])"), "TF_CONFIG.cluster.worker[0]", "is an array"},
      {jobs(R"("worker": {"0": 3})"), "TF_CONFIG.cluster.worker[0]", "is a number"},
      {jobs(R"("worker": {"x": "a:1"})"), "TF_CONFIG.cluster.worker.\"x\"", "is not an index"},
      {jobs(R"("worker": {"-1": "a:1"})"), "TF_CONFIG.cluster.worker.\"-1\"", "is not an index"},
      {jobs(R"("worker": {"1.5": "a:1"})"), "TF_CONFIG.cluster.worker.\"1.5\"", "is not an index"},
      {jobs(R"("worker": {"99999999999999999999": "a:1"})"),
       "TF_CONFIG.cluster.worker.\"99999999999999999999\"", "is not an index"},
      {jobs(R"("worker": {"0": "a:1", "00": "b:1"})"), "TF_CONFIG.cluster.worker[0]",
       "appears twice"},
      {jobs(R"("worker": {"0": "a:1", "2": "b:1"})"), "TF_CONFIG.cluster.worker[1]", "is missing"},
      {jobs(R"("Worker": ["a:1"])"), "TF_CONFIG.cluster.Worker", "is not a known job"},
      {jobs(R"("worker": ["a:1"], "": ["b:1"])"), "TF_CONFIG.cluster.", "is not a known job"},
      {jobs(R"("worker": ["a:1"], "ps": ["b:1"])"), "TF_CONFIG.cluster", "must have one chief"},
      {jobs(R"("chief": ["c:1"], "worker": ["a:1"], "ps": ["a:1"])"), "TF_CONFIG.cluster.ps[0]",
       "TF_CONFIG.cluster.worker[0]"},
      {jobs(R"("chief": ["c:1"], "worker": ["a:1"], "ps": {"1": "b:1"})"),
       "TF_CONFIG.cluster.ps[0]", "is missing"},
      {jobs(R"("chief": ["c:1"], "worker": ["a:1"], "ps": ["b:0"])"), "TF_CONFIG.cluster.ps[0]",
       "port"},
      {jobs(R"("worker": ["a:1"], "master": ["b:1"])"), "TF_CONFIG.cluster.master", "rename"},
      {jobs(R"("chief": ["a:1", "b:1"], "worker": ["c:1"])"), "TF_CONFIG.cluster.chief",
       "only one chief"},
  };
}

std::vector<Malformed> address_cases() {
  std::vector<Malformed> cases = {
      {jobs(R"("worker": ["a:1", "a:1"])"), "TF_CONFIG.cluster.worker[1]",
       "and so is TF_CONFIG.cluster.worker[0]"},
      {jobs(R"("worker": ["a:2222", "a"])"), "TF_CONFIG.cluster.worker[1]", "is a:2222"},
      {jobs(R"("chief": ["a:1"], "worker": ["a:1"])"), "TF_CONFIG.cluster.worker[0]",
       "and so is TF_CONFIG.cluster.chief[0]"},
  };
  const std::vector<std::pair<std::string, std::string>> addresses = {
      {"", "it is empty"},
      {"b:0", "not from 1 to 65535"},
      {"b:65536", "not from 1 to 65535"},
      {"b:-1", "not from 1 to 65535"},
      {"b:99999999999999999999", "its port is not a number"},
      {"b:", "its port is not a number"},
      {"b:http", "its port is not a number"},
      {"b:1.5", "its port is not a number"},
      {"b: 1", "its port is not a number"},
      {"b:1 ", "its port is not a number"},
      {" b:1", "characters that no host name has"},
      {"b c:1", "characters that no host name has"},
      {"b/c:1", "characters that no host name has"},
      {":1", "it names no host"},
      {"host:6:6", "more than one colon"},
      {"grpc://b:1", "more than one colon"},
      {"fd00::1", "more than one colon"},
      {"[fd00::1", "its [ is never closed"},
      {"[fd00::1]1", "only :port may follow"},
      {"[fd00::1]:", "its port is not a number"},
      {"[fd00::1]:0", "not from 1 to 65535"},
      {"[b]:1", "not a v6 address"},
      {"[]:1", "not a v6 address"},
      {"[fd00:: 1]:1", "not a v6 address"},
      {std::string(254, 'h') + ":1", "host name is too long"},
  };
  for (const auto& [address, phrase] : addresses) {
    cases.push_back({jobs("\"worker\": [\"a:1\", \"" + address + "\"]"),
                     "TF_CONFIG.cluster.worker[1]", phrase});
  }
  return cases;
}

std::vector<Malformed> task_cases() {
  return {
      {with_task("[]"), "TF_CONFIG.task", "is an array"},
      {with_task("\"worker\""), "TF_CONFIG.task", "is a string"},
      {with_task("null"), "TF_CONFIG.task.type", "must be set"},
      {with_task("{}"), "TF_CONFIG.task.type", "must be set"},
      {with_task(R"({"type": "", "index": 0})"), "TF_CONFIG.task.type", "must be set"},
      {with_task(R"({"type": 3, "index": 0})"), "TF_CONFIG.task.type", "is a number"},
      {with_task(R"({"type": ["worker"], "index": 0})"), "TF_CONFIG.task.type", "is an array"},
      {with_task(R"({"type": "Worker", "index": 0})"), "TF_CONFIG.task.type", "valid task_type"},
      {with_task(R"({"type": "chief", "index": 0})"), "TF_CONFIG.task.type", "use one of worker"},
      {with_task(R"({"type": "ps", "index": 0})"), "TF_CONFIG.task.type", "valid task_type"},
      {with_task(R"({"type": "master", "index": 0})"), "TF_CONFIG.task.type", "rename"},
      {with_task(R"({"type": "local", "index": 0})"), "TF_CONFIG.task.type", "leave cluster"},
      {with_task(R"({"type": "evaluator", "index": 1})"), "TF_CONFIG", "only one evaluator"},
      {with_task(R"({"type": "worker"})"), "TF_CONFIG.task.index", "must be set"},
      {with_task(R"({"type": "worker", "index": null})"), "TF_CONFIG.task.index", "must be set"},
      {with_task(R"({"type": "worker", "index": 2})"), "TF_CONFIG.task.index", "has 2 address"},
      {with_task(R"({"type": "worker", "index": -1})"), "TF_CONFIG.task.index", "non-negative"},
      {with_task(R"({"type": "worker", "index": "-1"})"), "TF_CONFIG.task.index", "non-negative"},
      {with_task(R"({"type": "worker", "index": 1.9})"), "TF_CONFIG.task.index", "is 1.9, not a"},
      {with_task(R"({"type": "worker", "index": 1.0})"), "TF_CONFIG.task.index", "whole number"},
      {with_task(R"({"type": "worker", "index": true})"), "TF_CONFIG.task.index", "whole number"},
      {with_task(R"({"type": "worker", "index": [0]})"), "TF_CONFIG.task.index", "whole number"},
      {with_task(R"({"type": "worker", "index": "one"})"), "TF_CONFIG.task.index", "whole number"},
      {with_task(R"({"type": "worker", "index": " 1"})"), "TF_CONFIG.task.index", "whole number"},
      {with_task(R"({"type": "worker", "index": ""})"), "TF_CONFIG.task.index", "whole number"},
      {with_task(R"({"type": "worker", "index": "1x"})"), "TF_CONFIG.task.index", "whole number"},
      // The next three become 1, a negative number and 0 where a parser converts silently.
      {with_task(R"({"type": "worker", "index": 4294967297})"), "TF_CONFIG.task.index",
       "valid task_id"},
      {with_task(R"({"type": "worker", "index": 99999999999999999999})"), "TF_CONFIG.task.index",
       "whole number"},
      {with_task(R"({"type": "worker", "index": 18446744073709551615})"), "TF_CONFIG.task.index",
       "whole number"},
      {R"({"task": {"type": "chief", "index": 0}})", "TF_CONFIG.task.type", "WORKER"},
      {R"({"task": {"type": "worker", "index": 1}})", "TF_CONFIG.task.index", "must be 0"},
      {R"({"cluster": {}, "task": {"type": "ps", "index": 0}})", "TF_CONFIG.task.type", "WORKER"},
      {R"({"service": 3})", "TF_CONFIG.service", "is a number"},
      {R"({"model_dir": 3})", "TF_CONFIG.model_dir", "is a number"},
      {R"({"model_dir": ""})", "TF_CONFIG.model_dir", "is empty"},
      {R"({"session_master": ["x"]})", "TF_CONFIG.session_master", "is an array"},
      {R"({"environment": {}})", "TF_CONFIG.environment", "is an object"},
  };
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("tf_config: every malformed document is a usage error that names its place") {
    std::size_t count = 0;
    for (const auto& cases : {syntax_cases(), cluster_cases(), address_cases(), task_cases()}) {
      for (const Malformed& each : cases) {
        ++count;
        const std::string shown = each.document.substr(0, 200);
        CAPTURE(shown);
        try {
          const troupe::Outcome outcome =
              troupe::parse_command_line({}, {{"TF_CONFIG", each.document}});
          FAIL_CHECK("accepted");
        } catch (const troupe::ConfigError& error) {
          const std::string message = error.what();
          CAPTURE(message);
          CHECK(error.exit_code() == 2);
          CHECK(contains(message, each.path + " "));
          CHECK(contains(message, each.phrase));
          CHECK(contains(message, ". Fix: "));
          CHECK(message.size() < 1000);
        }
      }
    }
    CHECK(count >= 60);
  }

  TEST_CASE("tf_config: damaged documents give a cluster or a usage error, never anything else") {
    const std::string whole =
        R"({"cluster": {"chief": ["c:1"], "worker": {"0": "a:1", "1": "[::1]:2"}, "ps": ["p:1"],
            "evaluator": ["e"]}, "task": {"type": "worker", "index": 1}, "model_dir": "/m",
            "service": {"k": [0, 1.5, null]}, "environment": "cloud"})";
    const std::string bytes = "{}[]\",:\\0123456789-.eEtrufalsn\x01\x80\xff ";
    std::mt19937 random(1);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    int accepted = 0;
    int refused = 0;
    for (int round = 0; round < 4000; ++round) {
      std::string damaged = whole;
      for (std::size_t edits = 1 + below(4); edits > 0 && !damaged.empty(); --edits) {
        const std::size_t at = below(damaged.size());
        const std::size_t length = 1 + below(6);
        switch (below(3)) {
          case 0:
            damaged[at] = bytes[below(bytes.size())];
            break;
          case 1:
            damaged.erase(at, length);
            break;
          default:
            damaged.insert(below(damaged.size()), damaged.substr(at, 4 * length));
        }
      }
      try {
        (void)troupe::parse_tf_config(damaged);
        ++accepted;
      } catch (const troupe::ConfigError&) {
        ++refused;
      }
    }
    CHECK(accepted > 100);
    CHECK(refused > 100);
  }

  TEST_CASE("tf_config: odd documents that are right") {
    const auto size = [](const std::string& document) {
      return troupe::testing::parsed({}, {{"TF_CONFIG", document}}).strategy.cluster.world_size();
    };
    CHECK(size("{}") == 1);
    CHECK(size(" { } \n") == 1);
    CHECK(size("\xef\xbb\xbf{}") == 1);  // a byte order mark
    CHECK(size(R"({"cluster": {}})") == 1);
    CHECK(size(R"({"cluster": null, "task": null})") == 1);
    CHECK(size(R"({"trial": "1", "environment": "cloud"})") == 1);
    CHECK(size(jobs(R"("worker": ["a", "b", "[fd00::1]", "[::1]:65535"])")) == 4);
    CHECK(size(jobs(R"("worker": ["a:1"])")) == 1);
    for (const char* none : {"null", "[]", "{}"}) {  // a job without tasks is no job
      CAPTURE(none);
      CHECK(size(jobs(std::string(R"("worker": )") + none)) == 1);
      const std::string rest = std::string(R"(, "ps": )") + none + R"(, "evaluator": )" + none;
      CHECK(size(jobs(R"("worker": ["a:1", "b:1"])" + rest)) == 2);
    }
    CHECK(size(jobs(R"("worker": {"0": "a:1", "1": "b:1"})")) == 2);
    CHECK(size(R"({"cl\u0075ster": {"worker": ["a:1", "b:1"]},
                   "task": {"type": "worker", "index": "1"}})") == 2);
    CHECK(size(nested("unknown", 63)) == 1);
  }
}

}  // namespace tf_config_malformed_test
