#include "troupe/cli/cluster/launcher_environment.h"

#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/cluster/address.h"
#include "troupe/core/options/cluster_reach.h"

namespace launcher_environment_test {

using troupe::Cluster;
using troupe::Environment;
using troupe::testing::contains;

namespace {

Cluster cluster(const Environment& environment) {
  return troupe::testing::parsed({}, environment).strategy.cluster;
}

std::string refusal(const Environment& environment) {
  return troupe::testing::refusal({}, environment);
}

std::string chief(const Environment& environment) {
  const auto address = cluster(environment).members[0].address;
  return address ? troupe::address_text(*address) : "none";
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::vector<std::string>& names) {
  for (const std::string& name : names) environment.erase(name);
  return environment;
}

/// Each of `names` taken away alone must be named as missing.
void check_partial(const Environment& environment, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(contains(refusal(without(environment, {name})), name + " is missing"));
    CHECK(contains(refusal(with(environment, {{name, ""}})), name + " is missing"));
  }
}

const Environment kTorchrun = {
    {"RANK", "2"},         {"WORLD_SIZE", "4"},      {"LOCAL_RANK", "0"},
    {"MASTER_ADDR", "m0"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RESTART_COUNT", "3"}};
const Environment kPet = {{"PET_NODE_RANK", "1"},
                          {"PET_NNODES", "2"},
                          {"PET_MASTER_ADDR", "m0"},
                          {"PET_MASTER_PORT", "23456"}};
const Environment kSlurm = {{"SLURM_PROCID", "2"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_STEP_NODELIST", "gnode[10,20,25-26]"},
                            {"SLURM_JOB_NODELIST", "other[1-9]"},
                            {"SLURM_JOB_ID", "4711"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "1975975937"}};

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("launchers: torchrun gives rank, size, chief and generation") {
    const Cluster found = cluster(kTorchrun);
    CHECK(found.origin == "torchrun");
    CHECK(found.rank == 2);
    CHECK(found.world_size() == 4);
    CHECK(found.generation == 3);
    CHECK(chief(kTorchrun) == "m0:29500");
    CHECK(chief(with(kTorchrun, {{"MASTER_ADDR", "fd00::1"}})) == "[fd00::1]:29500");
    CHECK(cluster({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size() == 1);
  }

  TEST_CASE("launchers: how many workers share this machine") {
    const auto here = [](const Environment& environment) {
      return troupe::workers_here(cluster(environment));
    };
    CHECK(here(kTorchrun) == 1);  // four, and nothing but the chief's machine is known
    CHECK(here(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}})) == 2);
    CHECK(here(with(kTorchrun, {{"MASTER_ADDR", "localhost"}})) == 4);
    CHECK(here(kPet) == 1);
    CHECK(here(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "1(x2),2"}, {"SLURM_NODEID", "1"}})) ==
          1);
    CHECK(here(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "1(x2),2"}, {"SLURM_NODEID", "2"}})) ==
          2);
    CHECK(here(with(kSlurm, {{"SLURM_TASKS_PER_NODE", "2(x2)"}, {"SLURM_NODEID", "1"}})) == 2);
    CHECK(here(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "4"}})) == 1);
    CHECK(here(kOpenMpi) == 2);
    const Environment mpich = {{"PMI_RANK", "1"},
                               {"PMI_SIZE", "4"},
                               {"MPI_LOCALNRANKS", "2"},
                               {"MASTER_ADDR", "m0"},
                               {"MASTER_PORT", "5"}};
    CHECK(here(mpich) == 2);
    CHECK(here(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})) == 4);  // there are no more
    for (const char* bad : {"x", "0", "4097"}) {
      CHECK(contains(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", bad}})), "LOCAL_WORLD_SIZE is"));
    }
  }

  TEST_CASE("launchers: where torchrun's agent holds the port, another one is derived") {
    const Environment agent = with(
        kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "none"}});
    CHECK(chief(agent) != "m0:29500");
    CHECK(chief(agent) == chief(with(agent, {{"RANK", "0"}})));
    CHECK(chief(agent) != chief(with(agent, {{"MASTER_PORT", "29501"}})));
    CHECK(chief(with(agent, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})) == "m0:29500");
  }

  TEST_CASE("launchers: torchrun's variables in part or wrong") {
    check_partial(kTorchrun, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
    for (const char* bad : {"x", "-1", "1.0", "4294967297", "70000"}) {
      CHECK(contains(refusal(with(kTorchrun, {{"RANK", bad}})), "RANK is"));
      CHECK(contains(refusal(with(kTorchrun, {{"WORLD_SIZE", bad}})), "WORLD_SIZE is"));
      CHECK(contains(refusal(with(kTorchrun, {{"MASTER_PORT", bad}})), "MASTER_PORT"));
    }
    CHECK(contains(refusal(with(kTorchrun, {{"WORLD_SIZE", "0"}})), "WORLD_SIZE is"));
    CHECK(contains(refusal(with(kTorchrun, {{"RANK", "4"}})), "RANK is 4, but WORLD_SIZE is 4"));
    CHECK(contains(refusal(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "x"}})),
                   "TORCHELASTIC_RESTART_COUNT"));
    CHECK(cluster({{"LOCAL_RANK", "0"}, {"MASTER_ADDR", "h"}}).origin == "local");
  }

  TEST_CASE("launchers: PET_ variables count where each machine has one worker") {
    CHECK(cluster(kPet).rank == 1);
    CHECK(cluster(kPet).world_size() == 2);
    CHECK(chief(kPet) == "m0:23456");
    CHECK(cluster(with(kPet, {{"PET_NPROC_PER_NODE", "1"}})).world_size() == 2);
    CHECK(contains(refusal(with(kPet, {{"PET_NPROC_PER_NODE", "8"}})), "PET_NPROC_PER_NODE"));
    CHECK(contains(refusal(with(kPet, {{"PET_NPROC_PER_NODE", "auto"}})), "PET_NPROC_PER_NODE"));
    CHECK(contains(refusal(with(kPet, {{"PET_NNODES", "1:4"}})), "PET_NNODES is \"1:4\""));
    check_partial(kPet, {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"});
    // Under torchrun itself they stand beside RANK and say nothing.
    CHECK(cluster(with(kTorchrun, with(kPet, {{"PET_NPROC_PER_NODE", "8"}}))).world_size() == 4);
  }

  TEST_CASE("launchers: Slurm gives the first machine of the step and a port from the job") {
    const Cluster found = cluster(kSlurm);
    CHECK(found.origin == "Slurm");
    CHECK(found.rank == 2);
    CHECK(found.world_size() == 4);
    CHECK(found.members[0].address->host == "gnode10");
    CHECK(chief(kSlurm) == chief(with(kSlurm, {{"SLURM_PROCID", "0"}})));
    CHECK(chief(kSlurm) != chief(with(kSlurm, {{"SLURM_JOB_ID", "4712"}})));
    CHECK(chief(kSlurm) != chief(with(kSlurm, {{"SLURM_STEP_ID", "1"}})));
    CHECK(contains(chief(without(kSlurm, {"SLURM_STEP_NODELIST"})), "other1:"));
    CHECK(chief(with(kSlurm, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}})) == "h:5");
    CHECK(cluster(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "3"}})).world_size() == 3);
  }

  TEST_CASE("launchers: Slurm's variables in part or wrong") {
    check_partial(kSlurm, {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID"});
    CHECK(contains(refusal(without(kSlurm, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})),
                   "SLURM_JOB_NODELIST is missing"));
    CHECK(contains(refusal(with(kSlurm, {{"SLURM_STEP_NODELIST", "n[1"}})),
                   "SLURM_STEP_NODELIST is \"n[1\""));
    CHECK(contains(refusal(with(kSlurm, {{"SLURM_STEP_NODELIST", "n=[1-2]"}})),
                   "characters that no host name has"));
    CHECK(contains(refusal(with(kSlurm, {{"SLURM_PROCID", "4"}})), "SLURM_PROCID is 4"));
    CHECK(contains(refusal(with(kSlurm, {{"MASTER_ADDR", "h"}})), "MASTER_PORT is missing"));
  }

  TEST_CASE("launchers: where Slurm distributes tasks arbitrarily task 0 may be anywhere") {
    for (const Environment& arbitrary : {Environment{{"SLURM_DISTRIBUTION", "arbitrary"}},
                                         Environment{{"SLURM_HOSTFILE", "hosts"}}}) {
      const Environment step = with(kSlurm, arbitrary);
      CHECK(contains(refusal(step), arbitrary.begin()->first));
      CHECK(contains(refusal(step), "Fix: export MASTER_ADDR"));
      CHECK(chief(with(step, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}})) == "h:5");
      CHECK(contains(chief(with(step, {{"SLURM_STEP_NODELIST", "one"}})), "127.0.0.1:"));
    }
    CHECK(contains(chief(with(kSlurm, {{"SLURM_DISTRIBUTION", "cyclic"}})), "gnode10:"));
  }

  TEST_CASE("launchers: a job that Slurm has requeued is a later start") {
    CHECK(cluster(kSlurm).generation == 0);
    CHECK(cluster(with(kSlurm, {{"SLURM_RESTART_COUNT", "2"}})).generation == 2);
    CHECK(contains(refusal(with(kSlurm, {{"SLURM_RESTART_COUNT", "x"}})), "SLURM_RESTART_COUNT"));
    const Environment alone =
        with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_RESTART_COUNT", "2"}});
    CHECK(cluster(alone).generation == 2);
  }

  TEST_CASE("launchers: a Slurm shell that srun did not start") {
    const Environment shell =
        without(kSlurm, {"SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID"});
    CHECK(cluster(with(shell, {{"SLURM_NTASKS", "1"}})).world_size() == 1);
    CHECK(cluster(with(shell, {{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}})).world_size() == 1);
    CHECK(contains(refusal(shell), "start the program with srun, or give --world-size 1"));
    CHECK(troupe::testing::parsed({"--world-size", "1"}, shell).strategy.cluster.rank == 0);
    CHECK(contains(refusal({{"SLURM_PROCID", "1"}}), "SLURM_STEP_NUM_TASKS is missing"));
  }

  TEST_CASE("launchers: mpirun inside a Slurm job is nearer than Slurm") {
    CHECK(cluster(with(kSlurm, kOpenMpi)).origin == "Open MPI");
    CHECK(
        cluster(with(without(kSlurm, {"SLURM_STEP_ID", "SLURM_STEP_NODELIST"}), kOpenMpi)).origin ==
        "Open MPI");
    // srun that starts MPI programs sets both alike: Slurm also knows the machine of rank 0.
    CHECK(cluster(with(kSlurm, {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}})).origin == "Slurm");
  }

  TEST_CASE("launchers: Open MPI on one machine needs no address") {
    const Cluster found = cluster(kOpenMpi);
    CHECK(found.origin == "Open MPI");
    CHECK(found.rank == 1);
    CHECK(found.members[0].address->host == "127.0.0.1");
    CHECK(chief(kOpenMpi) != chief(with(kOpenMpi, {{"PMIX_NAMESPACE", "1975975938"}})));
    const Environment old = without(kOpenMpi, {"PMIX_NAMESPACE"});
    CHECK(contains(chief(with(old, {{"OMPI_MCA_ess_base_jobid", "7"}})), "127.0.0.1:"));
    CHECK(contains(chief(with(old, {{"OMPI_MCA_orte_hnp_uri", "7.0;tcp://x"}})), "127.0.0.1:"));
    CHECK(contains(refusal(old), "do not say where rank 0 is found"));
    check_partial(kOpenMpi, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  }

  TEST_CASE("launchers: Open MPI on several machines needs one") {
    const Environment spread = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
    CHECK(contains(refusal(spread), "--chief-address HOST:PORT"));
    CHECK(contains(refusal(without(kOpenMpi, {"OMPI_COMM_WORLD_LOCAL_SIZE"})), "--chief-address"));
    CHECK(chief(with(spread, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}})) == "h:5");
    CHECK(chief(with(spread, {{"TROUPE_CHIEF_ADDRESS", "h:6"}})) == "h:6");
  }

  TEST_CASE("launchers: one process under mpirun trains alone") {
    CHECK(cluster({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).world_size() ==
          1);
  }

  TEST_CASE("launchers: those that give numbers only") {
    const std::vector<std::vector<std::string>> all = {
        {"MPICH", "PMI_RANK", "PMI_SIZE"},
        {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
        {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
        {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
        {"horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE"}};
    for (const std::vector<std::string>& each : all) {
      CAPTURE(each[0]);
      const Environment two = {{each[1], "1"}, {each[2], "2"}, {"PMIX_RANK", "1"}};
      check_partial(two, {each[1], each[2]});
      CHECK(contains(refusal(two), each[0] + " started 2 workers"));
      const Environment told = with(two, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}});
      CHECK(chief(told) == "h:5");
      CHECK(cluster(told).origin == each[0]);
      CHECK(cluster(told).rank == 1);
      CHECK(cluster({{each[1], "0"}, {each[2], "1"}}).world_size() == 1);
    }
  }

  TEST_CASE("launchers: a rank without a number of workers does not train alone") {
    for (const char* name : {"PMIX_RANK", "PALS_RANKID"}) {
      CAPTURE(name);
      CHECK(contains(refusal({{name, "0"}}), std::string(name) + " is set"));
      const auto alone = troupe::testing::parsed({"--world-size", "1"}, {{name, "0"}});
      CHECK(alone.strategy.cluster.world_size() == 1);
    }
  }

  TEST_CASE("launchers: derived ports stay below those of outgoing connections") {
    for (int i = 0; i < 1000; ++i) {
      const std::uint16_t port = troupe::derived_port(std::to_string(i));
      CHECK(port >= 15'000);
      CHECK(port < 30'000);
    }
  }
}

}  // namespace launcher_environment_test
