#include "troupe/cli/cluster/cluster_spec.h"

#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/cluster/address.h"
#include "troupe/cli/command_line.h"

namespace cluster_spec_test {

using troupe::Cluster;
using troupe::Environment;
using troupe::testing::contains;
using troupe::testing::refusal;
using troupe::testing::Words;

namespace {

const Environment kTorchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "torch"}, {"MASTER_PORT", "29500"}};
const Environment kTfConfig = {{"TF_CONFIG", R"({"cluster": {"worker": ["tf0:1", "tf1:1", "tf2:1"]},
                      "task": {"type": "worker", "index": 2}})"}};
const Environment kTroupe = {{"TROUPE_RANK", "1"},
                             {"TROUPE_WORLD_SIZE", "2"},
                             {"TROUPE_CHIEF_ADDRESS", "127.0.0.1:4000"},
                             {"TROUPE_GENERATION", "3"}};
const Environment kSlurm = {{"SLURM_PROCID", "5"},
                            {"SLURM_NTASKS", "6"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_JOB_ID", "77"},
                            {"SLURM_STEP_NODELIST", "n1"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "6"},
                              {"OMPI_COMM_WORLD_SIZE", "7"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "7"},
                              {"PMIX_NAMESPACE", "123"}};

Environment together(const std::vector<Environment>& all) {
  Environment merged;
  for (const Environment& each : all) merged.insert(each.begin(), each.end());
  return merged;
}

Cluster cluster(const Words& arguments, const Environment& environment) {
  return troupe::testing::parsed(arguments, environment).strategy.cluster;
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
  TEST_CASE("cluster_spec: the strongest source wins, one after the other") {
    const Words flags = {"--rank", "0", "--world-size", "9", "--chief-address", "flag:1"};
    std::vector<Environment> sources = {kTroupe, kTfConfig, kTorchrun, kSlurm, kOpenMpi};
    // Slurm's numbers must not contradict MPI's, or MPI is the nearer one; see its own case.
    sources.back()["OMPI_COMM_WORLD_RANK"] = "5";
    sources.back()["OMPI_COMM_WORLD_SIZE"] = "6";
    sources.back()["OMPI_COMM_WORLD_LOCAL_SIZE"] = "6";
    CHECK(cluster(flags, together(sources)).world_size() == 9);
    std::vector<std::pair<int, std::string>> found;
    while (!sources.empty()) {
      const Cluster won = cluster({}, together(sources));
      found.emplace_back(won.world_size(), won.origin);
      sources.erase(sources.begin());
    }
    CHECK(
        found ==
        std::vector<std::pair<int, std::string>>{
            {2, "TROUPE_RANK"}, {3, "TF_CONFIG"}, {4, "torchrun"}, {6, "Slurm"}, {6, "Open MPI"}});
    CHECK(cluster({}, {}).origin == "local");
  }

  TEST_CASE("cluster_spec: one line says which source won and which were not used") {
    CHECK(notes({}, {}).empty());
    CHECK(contains(notes({}, together({kTorchrun, kSlurm})),
                   "cluster: worker/1, rank 1 of 4, from torchrun; not used: Slurm"));
    CHECK(contains(notes({"--world-size", "1"}, together({kTfConfig, kTorchrun})),
                   "rank 0 of 1, from --world-size; not used: TF_CONFIG, torchrun"));
    CHECK(contains(notes({}, kTfConfig), "TF_CONFIG: {\"cluster\""));
    CHECK_FALSE(contains(notes({}, {{"TF_CONFIG", "{}"}}), "TF_CONFIG: "));
  }

  TEST_CASE("cluster_spec: a TF_CONFIG without a cluster leaves the choice to the others") {
    Environment environment = kTorchrun;
    environment["TF_CONFIG"] = R"({"environment": "cloud"})";
    CHECK(cluster({}, environment).origin == "torchrun");
    environment["TF_CONFIG"] = "{";
    CHECK(contains(refusal({}, environment), "TF_CONFIG is not valid JSON"));
  }

  TEST_CASE("cluster_spec: --task takes the place of TF_CONFIG's") {
    CHECK(cluster({"--task", "worker:0"}, kTfConfig).rank == 0);
    CHECK(contains(refusal({"--task", "worker:7"}, kTfConfig), "valid task_id"));
  }

  TEST_CASE("cluster_spec: numbered workers have no address but the chief's") {
    const Cluster found = cluster({}, kTroupe);
    CHECK(found.rank == 1);
    CHECK(found.generation == 3);
    CHECK(found.members[0].task == "worker/0");
    CHECK(troupe::address_text(*found.members[0].address) == "127.0.0.1:4000");
    CHECK_FALSE(found.members[1].address.has_value());
    CHECK(found.listener.take() == -1);
  }

  TEST_CASE("cluster_spec: rank 0 of troupe run inherits its listening socket") {
    Environment environment = kTroupe;
    environment["TROUPE_RANK"] = "0";
    environment["TROUPE_LISTEN_FD"] = "7";
    CHECK(cluster({}, environment).listener.take() == 7);
    CHECK(cluster({"--rank", "0"}, environment).listener.take() == -1);
    for (const char* bad : {"", "x", "2", "-1", "7 "}) {
      environment["TROUPE_LISTEN_FD"] = bad;
      CHECK(contains(refusal({}, environment), "TROUPE_LISTEN_FD is"));
    }
    environment["TROUPE_RANK"] = "1";
    CHECK(cluster({}, environment).listener.take() == -1);
  }

  TEST_CASE("cluster_spec: every worker of an elastic group has a socket and a line") {
    Environment environment = kTroupe;
    environment["TROUPE_LISTEN_FD"] = "7";
    environment["TROUPE_ROUNDS_FD"] = "8";
    const Cluster member = cluster({}, environment);
    CHECK(member.rank == 1);
    CHECK(member.listener.take() == 7);
    CHECK(member.rounds.take() == 8);
    CHECK_FALSE(member.joins);
    CHECK_FALSE(cluster({"--rank", "1"}, environment).rounds.is_there());
    environment["TROUPE_JOINS"] = "1";
    CHECK(cluster({}, environment).joins);
    for (const char* bad : {"", "x", "2", "-1", "8 "}) {
      Environment wrong = environment;
      wrong["TROUPE_ROUNDS_FD"] = bad;
      CHECK(contains(refusal({}, wrong), "TROUPE_ROUNDS_FD is"));
    }
    for (const char* bad : {"", "0", "yes"}) {
      Environment wrong = environment;
      wrong["TROUPE_JOINS"] = bad;
      CHECK(contains(refusal({}, wrong), "TROUPE_JOINS is"));
    }
    environment.erase("TROUPE_ROUNDS_FD");
    CHECK(contains(refusal({}, environment), "TROUPE_ROUNDS_FD is not"));
  }

  TEST_CASE("cluster_spec: TROUPE_ variables must be complete") {
    for (const char* missing : {"TROUPE_RANK", "TROUPE_WORLD_SIZE", "TROUPE_CHIEF_ADDRESS"}) {
      Environment environment = kTroupe;
      environment.erase(missing);
      CAPTURE(missing);
      CHECK(contains(refusal({}, environment), "is missing"));
    }
  }

  TEST_CASE("cluster_spec: a flag replaces one value of the variables") {
    CHECK(cluster({"--rank", "0"}, kTroupe).rank == 0);
    CHECK(cluster({"--generation", "8"}, kTroupe).generation == 8);
    CHECK(cluster({"--generation", "8"}, kTfConfig).generation == 8);
    CHECK(cluster({"--world-size", "1", "--rank", "0"}, kTroupe).world_size() == 1);
  }

  TEST_CASE("cluster_spec: --cluster and numbers: the stronger source, from one source neither") {
    const troupe::testing::TempDir folder;
    const std::string file = troupe::testing::write_file(
        folder / "c.json", R"({"worker": ["a:1", "b:1", "c:1", "d:1", "e:1"]})");
    const Words flags = {"--cluster", file, "--task", "worker:4"};
    CHECK(cluster(flags, {}).rank == 4);
    CHECK(cluster(flags, kTroupe).world_size() == 5);
    CHECK(contains(notes(flags, kTroupe), "TROUPE_RANK is ignored, since --cluster is given"));
    const Environment variables = {{"TROUPE_CLUSTER", file}, {"TROUPE_TASK", "worker:3"}};
    CHECK(cluster({}, variables).rank == 3);
    CHECK(cluster({"--rank", "0", "--world-size", "1"}, variables).world_size() == 1);
    CHECK(contains(refusal({}, together({variables, kTroupe})), "are both given"));
    CHECK(contains(refusal({"--cluster", file}, {}), "add --task worker:1"));
  }

  TEST_CASE("cluster_spec: --chief-address says what a launcher does not") {
    const Environment mpich = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
    CHECK(contains(refusal({}, mpich), "--chief-address"));
    CHECK(cluster({"--chief-address", "h:5"}, mpich).members[0].address->host == "h");
    CHECK(cluster({}, together({mpich, {{"TROUPE_CHIEF_ADDRESS", "h"}}})).origin == "MPICH");
    CHECK(contains(notes({"--chief-address", "h:5"}, kTfConfig), "TF_CONFIG names the chief"));
  }

  TEST_CASE("cluster_spec: one device and a cluster of several contradict each other") {
    CHECK(contains(refusal({"--strategy", "one-device"}, kTorchrun), "torchrun describes 4"));
    CHECK(cluster({"--strategy", "one-device", "--world-size", "1"}, kTorchrun).world_size() == 1);
    CHECK(cluster({"--strategy", "multi-worker"}, {}).world_size() == 1);
  }
}

}  // namespace cluster_spec_test
