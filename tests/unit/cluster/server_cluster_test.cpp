// Parameter servers in the cluster: by TF_CONFIG, by --cluster, by numbers, beside a launcher.
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/cluster/tf_config.h"
#include "troupe/cli/command_line.h"

namespace server_cluster_test {

using troupe::Cluster;
using troupe::Environment;
using troupe::Options;
using troupe::testing::contains;
using troupe::testing::parsed;
using troupe::testing::refusal;
using troupe::testing::Words;
using troupe::testing::write_file;

namespace {

/// One chief, two servers, three workers.
Environment tf_config(const std::string& type, int index) {
  return {{"TF_CONFIG",
           R"({"cluster": {"chief": ["h0:10"], "ps": ["h1:11", "h2:12"],
               "worker": ["h3:13", "h4:14", "h5:15"]}, "task": {"type": ")" +
               type + "\", \"index\": " + std::to_string(index) + "}}"}};
}

/// What `troupe run --workers 3 --ps 2` gives one process.
Environment launched(const std::string& name, const std::string& value) {
  return {{"TROUPE_WORLD_SIZE", "3"},
          {"TROUPE_SERVERS", "127.0.0.1:4000,127.0.0.1:4001"},
          {"TROUPE_GENERATION", "9"},
          {name, value}};
}

std::vector<std::string> addresses(const std::vector<troupe::Member>& members) {
  std::vector<std::string> all;
  for (const troupe::Member& member : members) {
    all.push_back(member.task + "=" +
                  (member.address ? troupe::address_text(*member.address) : "unset"));
  }
  return all;
}

std::string notes(const Words& arguments, const Environment& environment) {
  std::string all;
  for (const auto& note : troupe::parse_command_line(arguments, environment).notes) {
    all += note.text + "\n";
  }
  return all;
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("server cluster: chief, worker and ps of one TF_CONFIG") {
    struct Row {
      const char* type;
      int index;
      int rank;
      int server;
    };
    for (const Row& row : {Row{"chief", 0, 0, -1}, Row{"worker", 0, 1, -1}, Row{"worker", 2, 3, -1},
                           Row{"ps", 0, 0, 0}, Row{"ps", 1, 0, 1}}) {
      CAPTURE(row.type);
      CAPTURE(row.index);
      const Options options = parsed({}, tf_config(row.type, row.index));
      const Cluster& cluster = options.strategy.cluster;
      CHECK(addresses(cluster.members) ==
            std::vector<std::string>{"chief/0=h0:10", "worker/0=h3:13", "worker/1=h4:14",
                                     "worker/2=h5:15"});
      CHECK(addresses(cluster.servers) == std::vector<std::string>{"ps/0=h1:11", "ps/1=h2:12"});
      CHECK(cluster.rank == row.rank);
      CHECK(cluster.server == row.server);
      CHECK(cluster.is_server() == (row.server >= 0));
      CHECK(cluster.task() == std::string(row.type) + "/" + std::to_string(row.index));
      CHECK(cluster.origin == "TF_CONFIG");
      CHECK(cluster.is_chief() == (std::string(row.type) == "chief"));
      CHECK(cluster.evaluator == troupe::detail::Evaluator::possible);
    }
  }

  TEST_CASE("server cluster: the evaluator knows of no server") {
    const Words both = {"--mode", "train-and-evaluate", "--model-dir",
                        "/m",     "--strategy",         "parameter_server"};
    const Options options = parsed(both, tf_config("evaluator", 0));
    CHECK(options.strategy.cluster.servers.empty());
  }

  TEST_CASE("server cluster: with parameter servers a chief is required, without it is not") {
    const auto says = [](const std::string& jobs, const std::string& type) {
      return refusal({}, {{"TF_CONFIG", "{\"cluster\": {" + jobs + R"(}, "task": {"type": ")" +
                                            type + "\", \"index\": 0}}"}});
    };
    for (const char* type : {"worker", "ps"}) {
      CHECK(contains(says(R"("worker": ["a:1"], "ps": ["b:1"])", type),
                     "TF_CONFIG.cluster has parameter servers and must have one chief. Fix: add "
                     "\"chief\": [\"host:port\"]."));
    }
    CHECK(says(R"("worker": ["a:1", "b:1"])", "worker").empty());
    CHECK(says(R"("chief": ["a:1"], "ps": ["b:1"])", "ps").empty());
    // A server that the cluster does not have.
    CHECK(contains(says(R"("chief": ["a:1"])", "ps"), "not a valid task_type"));
    CHECK(contains(refusal({}, tf_config("ps", 2)), "not a valid task_id"));
  }

  TEST_CASE("server cluster: a cluster file with --task ps:1") {
    const troupe::testing::TempDir folder;
    const std::string file = write_file(
        folder / "c.json", R"({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1", "d:1"]})");
    const Cluster cluster = parsed({"--cluster", file, "--task", "ps:1"}).strategy.cluster;
    CHECK(cluster.task() == "ps/1");
    CHECK(cluster.world_size() == 2);
    CHECK(contains(notes({"--cluster", file, "--task", "ps:1"}, {}),
                   "cluster: ps/1, one of 2 servers for 2 workers, from " + file));
    CHECK(contains(notes({"--cluster", file, "--task", "worker:0"}, {}),
                   "cluster: worker/0, rank 1 of 2, with 2 servers, from " + file));
  }

  TEST_CASE("server cluster: what troupe run --ps tells a worker and a server") {
    Environment worker = launched("TROUPE_RANK", "2");
    Options options = parsed({"--strategy", "parameter_server"}, worker);
    CHECK(options.strategy.cluster.task() == "worker/2");
    CHECK(options.strategy.cluster.listener.take() == -1);
    CHECK(options.strategy.cluster.servers.size() == 2);
    CHECK(options.strategy.cluster.evaluator == troupe::detail::Evaluator::possible);

    Environment server = launched("TROUPE_TASK", "ps:1");
    server["TROUPE_LISTEN_FD"] = "7";
    options = parsed({"--strategy", "parameter_server"}, server);
    const Cluster& cluster = options.strategy.cluster;
    CHECK(cluster.task() == "ps/1");
    CHECK(cluster.server == 1);
    CHECK(cluster.listener.take() == 7);
    CHECK(cluster.generation == 9);
    CHECK(cluster.world_size() == 3);
    CHECK(addresses(cluster.servers) ==
          std::vector<std::string>{"ps/0=127.0.0.1:4000", "ps/1=127.0.0.1:4001"});
    CHECK_FALSE(cluster.is_chief());
  }

  TEST_CASE("server cluster: one worker with servers is not alone") {
    const Cluster cluster = parsed({"--world-size", "1", "--servers", "a:1"}).strategy.cluster;
    CHECK(cluster.evaluator == troupe::detail::Evaluator::possible);
    CHECK(cluster.is_chief());
  }

  TEST_CASE("server cluster: --servers says where, beside rank and size") {
    const Words worker = {"--rank", "1", "--world-size", "2", "--servers", "a:1,[::1]:2,c"};
    CHECK(addresses(parsed(worker).strategy.cluster.servers) ==
          std::vector<std::string>{"ps/0=a:1", "ps/1=[::1]:2", "ps/2=c:2222"});
    const Words server = {"--task", "ps:0", "--world-size", "2", "--servers", "a:1,b:2"};
    CHECK(parsed(server).strategy.cluster.task() == "ps/0");
    const std::string shown =
        troupe::parse_command_line(
            {"--rank", "0", "--world-size", "2", "--servers", "a,b:3", "--print-config"}, {})
            .text;
    CHECK(contains(shown, "a:2222,b:3"));
  }

  TEST_CASE("server cluster: beside a launcher, --servers takes the place of the chief's address") {
    const Environment mpich = {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}};
    CHECK(contains(refusal({}, mpich), "do not say where rank 0 is found"));
    const Cluster cluster = parsed({"--servers", "a:1"}, mpich).strategy.cluster;
    CHECK(cluster.servers.size() == 1);
    CHECK(cluster.rank == 1);
    CHECK(cluster.origin == "MPICH");
  }

  TEST_CASE("server cluster: a document's servers count, not those of --servers") {
    CHECK(contains(notes({"--servers", "z:1"}, tf_config("ps", 0)),
                   "--servers is ignored: TF_CONFIG describes the cluster"));
    CHECK(parsed({"--servers", "z:1"}, tf_config("ps", 0)).strategy.cluster.servers.size() == 2);
  }

  TEST_CASE("server cluster: what is missing or contradicts itself is refused by name") {
    struct Row {
      Words words;
      const char* part;
    };
    const std::vector<Row> rows = {
        {{"--servers", "a:1"}, "--servers is given, but --world-size is missing"},
        {{"--servers", "a:1", "--world-size", "2"}, "--world-size is given, but --rank is missing"},
        {{"--task", "ps:0", "--servers", "a:1"}, "--world-size is missing"},
        {{"--task", "ps:0", "--world-size", "2"}, "but --servers is missing"},
        {{"--task", "ps:1", "--world-size", "2", "--servers", "a:1"}, "servers count from 0 to 0"},
        {{"--task", "ps:x", "--world-size", "2", "--servers", "a:1"}, "for example ps:0"},
        {{"--task", "ps", "--world-size", "2", "--servers", "a:1"}, "for example ps:0"},
        {{"--task", "ps:-1", "--world-size", "2", "--servers", "a:1"}, "for example ps:0"},
        {{"--task", "ps:0", "--rank", "0", "--world-size", "2", "--servers", "a:1"},
         "a server has no rank"},
        {{"--rank", "0", "--world-size", "2", "--servers", "a:1,a:1"}, "names a:1 twice"},
        {{"--rank", "0", "--world-size", "2", "--servers", "a:1,"}, "(ps/1)"},
        {{"--rank", "0", "--world-size", "2", "--servers", "a:0"}, "--servers (ps/0)"},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.part));
      CAPTURE(refusal(row.words));
      CHECK(contains(refusal(row.words), row.part));
    }
  }

  TEST_CASE("server cluster: of --task ps:N and a rank, the stronger source speaks") {
    const Words words = {"--task", "ps:0"};
    CHECK(parsed(words, launched("TROUPE_RANK", "1")).strategy.cluster.task() == "ps/0");
    CHECK(contains(notes(words, launched("TROUPE_RANK", "1")),
                   "TROUPE_RANK is ignored, since --task is given"));
    CHECK(parsed({"--rank", "1"}, launched("TROUPE_TASK", "ps:0")).strategy.cluster.task() ==
          "worker/1");
  }
}

}  // namespace server_cluster_test
