// What launchers really set: launcher_variables/ holds the variables of both ranks of one start on
// one machine each, and of two shells inside a Slurm job. Recorded with Open MPI 4.1.4,
// MPICH 4.0.2, Slurm 22.05 and torchrun 1.13; paths are shortened, arguments left out.
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/cluster/address.h"

namespace launcher_recorded_test {

using troupe::Cluster;
using troupe::Environment;
using troupe::testing::contains;
using troupe::testing::parsed;
using troupe::testing::refusal;
using troupe::testing::Words;

namespace {

Environment recorded(const std::string& name) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/tests/unit/cluster/launcher_variables/" +
                   name + ".env");
  REQUIRE(in.good());
  Environment variables;
  for (std::string line; std::getline(in, line);) {
    const std::size_t equals = line.find('=');
    REQUIRE(equals != std::string::npos);
    variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

/// The cluster that both ranks see; they agree on it but for the rank.
Cluster cluster_of(const std::string& start, const Words& flags = {}) {
  const Cluster first = parsed(flags, recorded(start + ".0")).strategy.cluster;
  const Cluster second = parsed(flags, recorded(start + ".1")).strategy.cluster;
  CHECK(first.rank == 0);
  CHECK(second.rank == 1);
  for (const Cluster* each : {&first, &second}) {
    CHECK(each->world_size() == 2);
    CHECK(each->origin == first.origin);
    CHECK(each->generation == first.generation);
    CHECK(each->on_this_machine == 2);
    REQUIRE(each->members[0].address);
    CHECK(troupe::address_text(*each->members[0].address) ==
          troupe::address_text(*first.members[0].address));
  }
  return first;
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("launchers: both ranks of a recorded start find each other on their machine") {
    struct Expected {
      const char* start;
      const char* origin;
      const char* host;
    };
    for (const Expected& expected : {Expected{"open_mpi", "Open MPI", "127.0.0.1"},
                                     {"open_mpi_in_slurm", "Open MPI", "127.0.0.1"},
                                     {"slurm_srun", "Slurm", "127.0.0.1"},
                                     {"slurm_srun_pmi2", "Slurm", "127.0.0.1"},
                                     {"slurm_srun_pmix", "Slurm", "127.0.0.1"},
                                     {"torchrun_agent_store", "torchrun", "127.0.0.1"},
                                     {"torchrun_c10d", "torchrun", "localhost"}}) {
      CAPTURE(expected.start);
      const Cluster cluster = cluster_of(expected.start);
      CHECK(cluster.origin == expected.origin);
      CHECK(cluster.members[0].address->host == expected.host);
    }
  }

  TEST_CASE("launchers: recorded, MPICH names no address and takes one") {
    CHECK(contains(refusal({}, recorded("mpich.1")), "do not say where rank 0 is found"));
    CHECK(cluster_of("mpich", {"--chief-address", "127.0.0.1:2222"}).origin == "MPICH");
  }

  TEST_CASE("launchers: recorded, torchrun's own store keeps its port") {
    const Environment agent = recorded("torchrun_agent_store.0");
    CHECK(agent.at("MASTER_PORT") == "29500");
    CHECK(cluster_of("torchrun_agent_store").members[0].address->port != 29500);
    const Environment c10d = recorded("torchrun_c10d.0");
    CHECK(std::to_string(cluster_of("torchrun_c10d").members[0].address->port) ==
          c10d.at("MASTER_PORT"));
  }

  TEST_CASE("launchers: recorded, a shell in a Slurm job is told of srun") {
    for (const char* shell : {"slurm_salloc_shell", "slurm_sbatch_shell"}) {
      CAPTURE(shell);
      CHECK(contains(refusal({}, recorded(shell)), "start the program with srun"));
      CHECK(parsed({"--world-size", "1"}, recorded(shell)).strategy.cluster.world_size() == 1);
    }
  }
}

}  // namespace launcher_recorded_test
