// The numbers T01-T22 are those of the behavioural cases of TF_CONFIG that users of Estimator know.
#include "cluster/tf_config.h"

#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"

using troupe::agreed_model_dir;
using troupe::ChiefRule;
using troupe::parse_tf_config;
using troupe::TfConfig;
using troupe::to_cluster;
using troupe::testing::contains;
using troupe::testing::message_of;
using troupe::testing::write_file;

namespace {

const std::string kChief = R"("chief": ["h0:0"])";
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

TfConfig parsed(const std::string& text) { return parse_tf_config(text, ChiefRule::required); }

std::string refused(const std::string& text, ChiefRule rule = ChiefRule::required) {
  return message_of([&] { (void)parse_tf_config(text, rule); });
}

void check_place(const TfConfig& config, const std::string& master, bool is_chief, int workers,
                 int servers) {
  CHECK(config.master == master);
  CHECK(config.is_chief == is_chief);
  CHECK(config.num_worker_replicas == workers);
  CHECK(config.num_ps_replicas == servers);
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("tf_config: T01 no TF_CONFIG is a worker alone") {
    for (const TfConfig& config : {TfConfig(), parsed("{}")}) {
      CHECK(config.task_type == "worker");
      CHECK(config.task_id == 0);
      check_place(config, "", true, 1, 0);
      CHECK(config.evaluation_master.empty());
      CHECK(config.cluster.empty());
      CHECK(config.global_id_in_cluster == 0);
      CHECK_FALSE(config.service.has_value());
    }
  }

  TEST_CASE("tf_config: T02 T03 T04 chief, worker and ps of one cluster") {
    const std::string jobs = kChief + "," + kServers + "," + kWorkers;
    check_place(parsed(document(jobs, task("chief", 0))), "grpc://h0:0", true, 4, 2);
    check_place(parsed(document(jobs, task("worker", 1))), "grpc://h4:4", false, 4, 2);
    check_place(parsed(document(jobs, task("ps", 0))), "grpc://h1:1", false, 4, 2);
  }

  TEST_CASE("tf_config: T05 T06 an evaluator of any index sees no cluster") {
    const std::string jobs = kChief + "," + kServers + "," + kWorkers;
    const TfConfig config = parsed(document(jobs, task("evaluator", 12)));
    check_place(config, "", false, 0, 0);
    CHECK(config.task_id == 12);
    CHECK(config.cluster.empty());
    CHECK_FALSE(config.global_id_in_cluster.has_value());
    CHECK(parsed(document(jobs, task("evaluator", 12), R"("eval_session_master": "X")"))
              .evaluation_master == "X");
    CHECK(parsed(document(jobs, task("evaluator", 0), R"("session_master": "X")")).master.empty());
  }

  TEST_CASE("tf_config: T07 T08 a single chief has no master but the one it is given") {
    CHECK(parsed(document(kChief, task("chief", 0))).master.empty());
    const std::string session = R"("session_master": "M")";
    CHECK(parsed(document(kChief, task("chief", 0), session)).master == "M");
    CHECK(parsed(document(kChief + "," + kServers, task("chief", 0), session)).master == "M");
    CHECK(parsed(document(kChief, task("chief", 0), R"("eval_session_master": "E")"))
              .evaluation_master.empty());
  }

  TEST_CASE("tf_config: T09 T10 exactly one chief, said before the missing task") {
    CHECK(contains(refused(document(R"("chief": ["a:1", "b:2"],)" + kWorkers, "")),
                   "TF_CONFIG.cluster.chief has 2 addresses: only one chief"));
    CHECK(contains(refused(document(kWorkers, "")), "TF_CONFIG.cluster must have one chief"));
  }

  TEST_CASE("tf_config: T11 T12 a cluster needs task type and index") {
    CHECK(contains(refused(document(kChief, "")),
                   "TF_CONFIG.task.type is missing: the task type "
                   "must be set"));
    CHECK(contains(refused(document(kChief, R"("type": "chief")")),
                   "TF_CONFIG.task.index is missing: the task index must be set"));
  }

  TEST_CASE("tf_config: T13 T15 a task must be one of the cluster's") {
    CHECK(contains(refused(document(kChief, task("chief", 1))),
                   "TF_CONFIG.task.index is 1, not a valid task_id"));
    CHECK(contains(refused(document(kChief, task("worker", 0))),
                   "TF_CONFIG.task.type is \"worker\", not a valid task_type"));
    CHECK(contains(refused(document(kChief, task("local", 0))), "leave cluster and task out"));
    CHECK(contains(refused(document(kChief, task("evaluator", -1))), "non-negative"));
  }

  TEST_CASE("tf_config: T16 without a cluster only worker 0 exists") {
    for (const char* type : {"chief", "ps", "evaluator"}) {
      CHECK(contains(refused("{\"task\": {" + task(type, 0) + "}}"), "must be worker (WORKER)"));
    }
    CHECK(contains(refused("{\"task\": {" + task("worker", 1) + "}}"), "the index must be 0"));
    CHECK(parsed("{\"task\": {" + task("worker", 0) + "}}").is_local());
  }

  TEST_CASE("tf_config: T16 where the chief is optional, an evaluator needs no cluster") {
    for (const int index : {0, 12}) {
      const TfConfig config =
          parse_tf_config("{\"task\": {" + task("evaluator", index) + "}, \"model_dir\": \"/m\"}",
                          ChiefRule::optional);
      check_place(config, "", false, 0, 0);
      CHECK(config.task_id == index);
      CHECK_FALSE(config.is_alone);
      CHECK(config.model_dir == "/m");
    }
    CHECK(contains(refused("{\"task\": {" + task("chief", 0) + "}}", ChiefRule::optional),
                   "must be worker (WORKER)"));
  }

  TEST_CASE("tf_config: T36 a task local beside a cluster is explained") {
    const std::string said =
        refused(document(kChief + R"(,"local": ["x:1"])", task("local", 0)), ChiefRule::optional);
    CHECK(contains(said, "TF_CONFIG.cluster.local is not a known job"));
    CHECK(contains(refused(document(kChief, task("local", 0)), ChiefRule::optional),
                   "leave cluster and task out to run locally"));
  }

  TEST_CASE("tf_config: T38 there is one evaluator, and its index is 0") {
    const auto place = [](int index) {
      return troupe::evaluator_cluster(
          parse_tf_config(document(kWorkers, task("evaluator", index)), ChiefRule::optional));
    };
    CHECK(place(0).task() == "evaluator/0");
    CHECK(place(0).world_size() == 1);
    CHECK(place(0).origin == "TF_CONFIG");
    CHECK(contains(message_of([&] { (void)place(1); }), "there is only one evaluator"));
  }

  TEST_CASE("tf_config: a process without a cluster is alone, and a listed evaluator is expected") {
    CHECK(parsed("{}").is_alone);
    CHECK_FALSE(parsed(document(kChief, task("chief", 0))).is_alone);
    CHECK_FALSE(parsed(document(kChief, task("chief", 0))).evaluator_expected);
    CHECK(
        parsed(document(kChief + R"(,"evaluator": ["e:1"])", task("chief", 0))).evaluator_expected);
  }

  TEST_CASE("tf_config: T17 local mode keeps both masters") {
    CHECK(parsed(R"({"session_master": "M"})").master == "M");
    CHECK(parsed(R"({"eval_session_master": "E"})").evaluation_master == "E");
  }

  TEST_CASE("tf_config: T18 global ids: chief, others by name, ps last") {
    const std::string jobs = kChief + "," + kWorkers + R"(,"ps": ["h6:3", "h7:4", "h8:5"])";
    const auto id = [](const std::string& all, const char* type, int index) {
      return parsed(document(all, task(type, index))).global_id_in_cluster.value();
    };
    CHECK(id(jobs, "chief", 0) == 0);
    CHECK(id(jobs, "worker", 2) == 3);
    CHECK(id(jobs, "ps", 1) == 5);
    const std::string more = jobs + R"(,"other_type": ["h9:1", "h9:2"])";
    CHECK(id(more, "other_type", 1) == 2);
    CHECK(id(more, "worker", 0) == 3);
    // An evaluator that is listed takes no id.
    CHECK(id(jobs + R"(,"evaluator": ["e:1"])", "worker", 2) == 3);
  }

  TEST_CASE("tf_config: T20 the old name master is refused with its new one") {
    const std::string master = R"("master": ["m:1"])";
    CHECK(contains(refused(document(master + "," + kChief, task("chief", 0))), "cluster.master"));
    CHECK(contains(refused(document(R"("master": ["m:1", "n:1"])", task("master", 0))),
                   "rename \"master\" to \"chief\""));
    CHECK(contains(refused(document(master, task("evaluator", 0))), "rename"));
    CHECK(contains(refused(document(kChief, task("master", 0))), "rename"));
    CHECK(contains(refused("{\"task\": {" + task("master", 0) + "}}"), "rename"));
  }

  TEST_CASE("tf_config: T21 service is kept as it is, and is an object") {
    CHECK(parsed(R"({"service": {"key1": [0, 1]}})").service == "{\"key1\":[0,1]}");
    CHECK(contains(refused(R"({"service": "x"})"), "TF_CONFIG.service is a string"));
    CHECK(contains(refused(R"({"service": [1]})"), "TF_CONFIG.service is an array"));
  }

  TEST_CASE("tf_config: T22 model_dir from both sides") {
    const TfConfig none = parsed("{}");
    const TfConfig some = parsed(R"({"model_dir": "/m"})");
    CHECK(agreed_model_dir(none, "/m") == "/m");
    CHECK(agreed_model_dir(some, std::nullopt) == "/m");
    CHECK(agreed_model_dir(some, "/m") == "/m");
    CHECK_FALSE(agreed_model_dir(none, std::nullopt).has_value());
    CHECK(contains(message_of([&] { (void)agreed_model_dir(some, "/other"); }), "/other"));
    CHECK(contains(message_of([&] { (void)agreed_model_dir(none, ""); }), "empty"));
    CHECK(contains(refused(R"({"model_dir": ""})"), "TF_CONFIG.model_dir is empty"));
  }

  TEST_CASE("tf_config: unknown keys are ignored, at the top and in the task") {
    const TfConfig config = parsed(document(
        kChief + "," + kWorkers, task("worker", 0) + R"(, "trial": "3", "cloud": true)",
        R"("environment": "cloud", "job": {"x": [1]}, "trial": null, "rpc_layer": "grpc")"));
    CHECK(config.task_type == "worker");
    CHECK(config.environment == "cloud");
    CHECK(config.rpc_layer == "grpc");
  }

  TEST_CASE("tf_config: null counts as absent, and an index may be a numeric string") {
    CHECK(parsed(R"({"cluster": null, "task": null, "model_dir": null})").is_local());
    CHECK(contains(refused(document(kChief, R"("type": null, "index": 0)")), "type must be set"));
    CHECK(parsed(document(kChief + "," + kWorkers, R"("type": "worker", "index": "2")")).task_id ==
          2);
  }

  TEST_CASE("tf_config: with an optional chief, worker 0 leads") {
    const auto optional = [](const char* type, int index) {
      return parse_tf_config(document(kWorkers, task(type, index)), ChiefRule::optional);
    };
    CHECK(optional("worker", 0).is_chief);
    CHECK_FALSE(optional("worker", 1).is_chief);
    CHECK(optional("worker", 1).num_worker_replicas == 3);
    CHECK(optional("worker", 1).global_id_in_cluster == 1);
    CHECK_FALSE(optional("evaluator", 0).is_chief);
  }

  TEST_CASE("tf_config: with an optional chief, only the known jobs, one chief, one evaluator") {
    const auto says = [](const std::string& jobs) {
      return refused(document(jobs, task("worker", 0)), ChiefRule::optional);
    };
    CHECK(contains(says(kWorkers + R"(,"other": ["x:1"])"), "cluster.other is not a known job"));
    CHECK(contains(says(kWorkers + R"(,"chief": ["x:1", "y:1"])"), "only one chief"));
    CHECK(contains(says(kWorkers + R"(,"evaluator": ["x:1", "y:1"])"), "only one evaluator"));
  }

  TEST_CASE("tf_config: sparse clusters, under either key") {
    for (const char* key : {"cluster", "sparseCluster"}) {
      const TfConfig config = parse_tf_config(
          std::string("{\"") + key +
              R"(": {"worker": {"1": "b:2", "0": "a:1"}}, "task": {"type": "worker", "index": 1}})",
          ChiefRule::optional);
      CHECK(config.master == "grpc://b:2");
      CHECK(to_cluster(config).rank == 1);
    }
    // A scheduler that adds workers on the way tells each of them only its own address.
    const TfConfig dynamic = parse_tf_config(
        R"({"sparseCluster": {"worker": {"2": "c:3"}}, "task": {"type": "worker", "index": 2}})",
        ChiefRule::optional);
    CHECK(contains(message_of([&] { (void)to_cluster(dynamic); }),
                   "TF_CONFIG.sparseCluster.worker[0] is missing"));
  }

  TEST_CASE("to_cluster: chief first, then the workers, each with its address") {
    const auto cluster = to_cluster(parse_tf_config(
        document(R"("worker": ["w0.ns.svc", "[fd00::1]:5"], "chief": ["c:1"], "evaluator": ["x"])",
                 task("worker", 1)),
        ChiefRule::optional));
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

  TEST_CASE("to_cluster: an evaluator and an unknown job have no place in it") {
    const auto says = [](const std::string& jobs, const std::string& own, ChiefRule rule) {
      return message_of([&] { (void)to_cluster(parse_tf_config(document(jobs, own), rule)); });
    };
    CHECK(contains(says(kWorkers, task("evaluator", 0), ChiefRule::optional),
                   "TF_CONFIG.task.type is \"evaluator\""));
    CHECK(contains(says(kChief + R"(,"coach": ["k:1"])", task("chief", 0), ChiefRule::required),
                   "TF_CONFIG.cluster.coach"));
    CHECK(contains(message_of([] { (void)to_cluster(TfConfig()); }), "names no cluster"));
  }

  TEST_CASE("read_cluster_file: the whole document, or its cluster part with a task from outside") {
    const troupe::testing::TempDir folder;
    const auto read = [&](const std::string& content, const std::optional<std::string>& own) {
      return troupe::read_cluster_file(write_file(folder / "c.json", content), "--cluster", own,
                                       ChiefRule::optional);
    };
    const auto says = [&](const std::string& content, const std::optional<std::string>& own) {
      return message_of([&] { (void)to_cluster(read(content, own)); });
    };
    CHECK(to_cluster(read("{" + kWorkers + "}", "worker:2")).rank == 2);
    CHECK(to_cluster(read("{" + kWorkers + "}", "worker/1")).rank == 1);
    CHECK(to_cluster(read(document(kWorkers, task("worker", 1)), std::nullopt)).rank == 1);
    CHECK(to_cluster(read(document(kWorkers, task("worker", 1)), "worker:0")).rank == 0);
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
