// The behavioural cases of TF_CONFIG that users of Estimator know.
#include "troupe/cli/cluster/tf_config.h"

#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"

namespace tf_config_test {

using troupe::Cluster;
using troupe::parse_tf_config;
using troupe::TfConfig;
using troupe::detail::Evaluator;
using troupe::testing::contains;
using troupe::testing::message_of;
using troupe::testing::write_file;

namespace {

const std::string kChief = R"("chief": ["h0:10"])";
const std::string kWorkers = R"("worker": ["h3:3", "h4:4", "h5:5"])";
const std::string kServers = R"("ps": ["h1:1", "h2:2"])";

std::string document(const std::string& jobs, const std::string& task,
                     const std::string& more = "") {
  return "{\"cluster\": {" + jobs + "}" + (task.empty() ? "" : ", \"task\": {" + task + "}") +
         (more.empty() ? "" : ", " + more) + "}";
}

std::string task(const std::string& type, int index) {
  return "\"type\": \"" + type + "\", \"index\": " + std::to_string(index);
}

Cluster place(const std::string& text) { return parse_tf_config(text).cluster.value(); }

std::string refused(const std::string& text) {
  return message_of([&] { (void)parse_tf_config(text); });
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("tf_config: no cluster is no place in one") {
    for (const std::string& none :
         {std::string("{}"), "{\"task\": {" + task("worker", 0) + "}}",
          std::string(R"({"session_master": "M", "eval_session_master": "E"})")}) {
      const TfConfig config = parse_tf_config(none);
      CHECK_FALSE(config.cluster.has_value());
      CHECK_FALSE(config.model_dir.has_value());
    }
  }

  TEST_CASE("tf_config: chief, worker and ps of one cluster") {
    const std::string jobs = kServers + "," + kWorkers + "," + kChief;
    struct Row {
      const char* type;
      int index;
      int rank;
      int server;
    };
    for (const Row& row : {Row{"chief", 0, 0, -1}, Row{"worker", 2, 3, -1}, Row{"ps", 1, 0, 1}}) {
      CAPTURE(row.type);
      const Cluster own = place(document(jobs, task(row.type, row.index)));
      CHECK(own.task() == std::string(row.type) + "/" + std::to_string(row.index));
      CHECK(own.rank == row.rank);
      CHECK(own.server == row.server);
      CHECK(own.is_chief() == (std::string(row.type) == "chief"));
      CHECK(own.world_size() == 4);
      CHECK(own.servers.size() == 2);
      CHECK(own.evaluator == Evaluator::possible);
    }
  }

  TEST_CASE("tf_config: there is one evaluator, it sees no cluster, and its index is 0") {
    const std::string jobs = kChief + "," + kServers + "," + kWorkers;
    for (const std::string& whole :
         {document(jobs, task("evaluator", 0), R"("eval_session_master": "X")"),
          "{\"task\": {" + task("evaluator", 0) + "}}"}) {
      const Cluster own = place(whole);
      CHECK(own.is_evaluator());
      CHECK_FALSE(own.is_chief());
      CHECK(own.task() == "evaluator/0");
      CHECK(own.world_size() == 1);
      CHECK(own.servers.empty());
      CHECK(own.origin == "TF_CONFIG");
    }
    CHECK(contains(refused(document(jobs, task("evaluator", 12))), "only one evaluator"));
    CHECK(contains(refused("{\"task\": {" + task("evaluator", 1) + "}}"), "only one evaluator"));
  }

  TEST_CASE("tf_config: exactly one chief, said before the missing task") {
    CHECK(contains(refused(document(R"("chief": ["a:1", "b:2"],)" + kWorkers, "")),
                   "TF_CONFIG.cluster.chief has 2 addresses: only one chief"));
    CHECK(contains(refused(document(kWorkers + "," + kServers, "")),
                   "TF_CONFIG.cluster has parameter servers and must have one chief"));
  }

  TEST_CASE("tf_config: a cluster needs task type and index") {
    CHECK(contains(refused(document(kChief, "")),
                   "TF_CONFIG.task.type is missing: the task type "
                   "must be set"));
    CHECK(contains(refused(document(kChief, R"("type": "chief")")),
                   "TF_CONFIG.task.index is missing: the task index must be set"));
  }

  TEST_CASE("tf_config: a task must be one of the cluster's") {
    CHECK(contains(refused(document(kChief, task("chief", 1))),
                   "TF_CONFIG.task.index is 1, not a valid task_id"));
    CHECK(contains(refused(document(kChief, task("worker", 0))),
                   "TF_CONFIG.task.type is \"worker\", not a valid task_type"));
    CHECK(contains(refused(document(kChief, task("local", 0))), "leave cluster and task out"));
    CHECK(contains(refused(document(kChief, task("evaluator", -1))), "non-negative"));
  }

  TEST_CASE("tf_config: without a cluster only worker 0 and the evaluator exist") {
    for (const char* type : {"chief", "ps"}) {
      CHECK(contains(refused("{\"task\": {" + task(type, 0) + "}}"), "must be worker (WORKER)"));
    }
    CHECK(contains(refused("{\"task\": {" + task("worker", 1) + "}}"), "the index must be 0"));
  }

  TEST_CASE("tf_config: a task local beside a cluster is explained") {
    CHECK(contains(refused(document(kChief + R"(,"local": ["x:1"])", task("local", 0))),
                   "TF_CONFIG.cluster.local is not a known job"));
    CHECK(contains(refused(document(kChief, task("local", 0))),
                   "leave cluster and task out to run locally"));
  }

  TEST_CASE("tf_config: a listed evaluator is expected, and one that is not listed is possible") {
    CHECK(place(document(kChief, task("chief", 0))).evaluator == Evaluator::possible);
    CHECK(place(document(kChief + R"(,"evaluator": ["e:1"])", task("chief", 0))).evaluator ==
          Evaluator::expected);
  }

  TEST_CASE("tf_config: the old name master is refused with its new one") {
    const std::string master = R"("master": ["m:1"])";
    CHECK(contains(refused(document(master + "," + kChief, task("chief", 0))), "cluster.master"));
    CHECK(contains(refused(document(R"("master": ["m:1", "n:1"])", task("master", 0))),
                   "rename \"master\" to \"chief\""));
    CHECK(contains(refused(document(master, task("evaluator", 0))), "rename"));
    CHECK(contains(refused(document(kChief, task("master", 0))), "rename"));
    CHECK(contains(refused("{\"task\": {" + task("master", 0) + "}}"), "rename"));
  }

  TEST_CASE("tf_config: what is not needed here must have its type") {
    CHECK_NOTHROW((void)parse_tf_config(R"({"service": {"key1": [0, 1]}, "rpc_layer": "grpc"})"));
    CHECK(contains(refused(R"({"service": "x"})"), "TF_CONFIG.service is a string"));
    CHECK(contains(refused(R"({"service": [1]})"), "TF_CONFIG.service is an array"));
    CHECK(contains(refused(R"({"rpc_layer": 1})"), "TF_CONFIG.rpc_layer is a number"));
  }

  TEST_CASE("tf_config: model_dir, with a cluster and without") {
    CHECK(parse_tf_config(R"({"model_dir": "/m"})").model_dir == "/m");
    CHECK(parse_tf_config(document(kChief, task("chief", 0), R"("model_dir": "/m")")).model_dir ==
          "/m");
    CHECK(contains(refused(R"({"model_dir": ""})"), "TF_CONFIG.model_dir is empty"));
  }

  TEST_CASE("tf_config: unknown keys are ignored, at the top and in the task") {
    CHECK(place(document(kChief + "," + kWorkers,
                         task("worker", 0) + R"(, "trial": "3", "cloud": true)",
                         R"("environment": "cloud", "job": {"x": [1]}, "trial": null)"))
              .task() == "worker/0");
  }

  TEST_CASE("tf_config: null counts as absent, and an index may be a numeric string") {
    CHECK_FALSE(parse_tf_config(R"({"cluster": null, "task": null, "model_dir": null})")
                    .cluster.has_value());
    CHECK(contains(refused(document(kChief, R"("type": null, "index": 0)")), "type must be set"));
    CHECK(place(document(kChief + "," + kWorkers, R"("type": "worker", "index": "2")")).task() ==
          "worker/2");
  }

  TEST_CASE("tf_config: without a chief, worker 0 leads") {
    CHECK(place(document(kWorkers, task("worker", 0))).is_chief());
    CHECK_FALSE(place(document(kWorkers, task("worker", 1))).is_chief());
    CHECK(place(document(kWorkers, task("worker", 1))).rank == 1);
  }

  TEST_CASE("tf_config: only the known jobs, one chief, one evaluator") {
    const auto says = [](const std::string& jobs) {
      return refused(document(jobs, task("worker", 0)));
    };
    CHECK(contains(says(kWorkers + R"(,"other": ["x:1"])"), "cluster.other is not a known job"));
    CHECK(contains(says(kWorkers + R"(,"chief": ["x:1", "y:1"])"), "only one chief"));
    CHECK(contains(says(kWorkers + R"(,"evaluator": ["x:1", "y:1"])"), "only one evaluator"));
  }

  TEST_CASE("tf_config: sparse clusters, under either key") {
    for (const char* key : {"cluster", "sparseCluster"}) {
      const Cluster own = place(
          std::string("{\"") + key +
          R"(": {"worker": {"1": "b:2", "0": "a:1"}}, "task": {"type": "worker", "index": 1}})");
      CHECK(own.rank == 1);
      CHECK(own.members[1].address->host == "b");
    }
  }

  TEST_CASE("tf_config: a job without tasks is absent") {
    for (const char* none : {"null", "[]", "{}"}) {
      CAPTURE(none);
      const Cluster own = place(
          document(kChief + "," + kWorkers + R"(, "evaluator": )" + none + R"(, "ps": )" + none,
                   task("worker", 1)));
      CHECK(own.servers.empty());
      CHECK(own.evaluator == troupe::detail::Evaluator::possible);
      CHECK(contains(refused(document(kWorkers + R"(, "ps": )" + none, task("ps", 0))),
                     "not a valid task_type"));
    }
  }

  // What the training operator writes for a TFJob with enableDynamicWorker: to a worker its own
  // address and the servers', to a server its own, to others nothing.
  TEST_CASE("tf_config: Kubeflow's sparse cluster is enough for the evaluator alone") {
    const auto sparse = [](const std::string& jobs, const std::string& own) {
      return "{\"sparseCluster\": {" + jobs + "}, \"task\": {" + own + "}}";
    };
    const std::string nothing = R"("worker": {}, "ps": [])";
    CHECK(place(sparse(nothing, task("evaluator", 0))).is_evaluator());
    const std::vector<std::string> others = {
        sparse(nothing, task("chief", 0)),
        sparse(R"("worker": {"0": "a:1"}, "ps": null)", task("worker", 0)),
        sparse(R"("worker": {"2": "c:3"}, "ps": null)", task("worker", 2)),
        sparse(R"("worker": {"1": "b:2"}, "ps": ["p:1", "q:1"])", task("worker", 1)),
        sparse(R"("worker": {}, "ps": ["q:1"])", task("ps", 1))};
    for (const std::string& document : others) {
      CAPTURE(document);
      const std::string message = refused(document);
      CHECK(contains(message, "TF_CONFIG.sparseCluster names neither a chief nor other workers"));
      CHECK(contains(message, "remove enableDynamicWorker from the TFJob"));
    }
  }

  TEST_CASE("tf_config: chief first, then the workers, each with its address") {
    const Cluster cluster = place(
        document(R"("worker": ["w0.ns.svc", "[fd00::1]:5"], "chief": ["c:1"], "evaluator": ["x"])",
                 task("worker", 1)));
    REQUIRE(cluster.world_size() == 3);
    CHECK(cluster.rank == 2);
    CHECK(cluster.members[0].task == "chief/0");
    CHECK(cluster.members[0].address->port == 1);
    CHECK(cluster.members[1].task == "worker/0");
    CHECK(cluster.members[1].address->host == "w0.ns.svc");
    CHECK(cluster.members[1].address->port == 2222);
    CHECK(cluster.task() == "worker/1");
    CHECK(cluster.members[2].address->host == "fd00::1");
    CHECK(cluster.origin == "TF_CONFIG");
  }

  TEST_CASE("read_cluster_file: the whole document, or its cluster part with a task from outside") {
    const troupe::testing::TempDir folder;
    const auto read = [&](const std::string& content, const std::optional<std::string>& own) {
      return troupe::read_cluster_file(write_file(folder / "c.json", content), "--cluster", own)
          .cluster.value();
    };
    const auto says = [&](const std::string& content, const std::optional<std::string>& own) {
      return message_of([&] { (void)read(content, own); });
    };
    CHECK(read("{" + kWorkers + "}", "worker:2").rank == 2);
    CHECK(read("{" + kWorkers + "}", "worker/1").rank == 1);
    CHECK(read(document(kWorkers, task("worker", 1)), std::nullopt).rank == 1);
    CHECK(read(document(kWorkers, task("worker", 1)), "worker:0").rank == 0);
    CHECK(contains(says("{" + kWorkers + "}", std::nullopt), "add --task worker:1"));
    CHECK(contains(says("{\"worker\": [\"a b\"]}", "worker:0"), "c.json.worker[0] is \"a b\""));
    CHECK(contains(says("{\"worker\": [3]}", "worker:0"), "c.json.worker[0] is a number"));
    CHECK(contains(says("{}", "worker:0"), "names no worker"));
    CHECK(contains(says("[]", "worker:0"), "is an array"));
    for (const char* own : {"worker", "worker:", ":1", "worker:x", "worker:-1", "worker:1:2", ""}) {
      CAPTURE(own);
      CHECK(contains(says("{" + kWorkers + "}", own), "--task is"));
    }
  }
}

}  // namespace tf_config_test
