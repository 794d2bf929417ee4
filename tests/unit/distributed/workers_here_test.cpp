#include <optional>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/options/cluster_reach.h"

using troupe::Cluster;
using troupe::Endpoint;

namespace {

/// Workers at these hosts; "" where the configuration does not know a worker's address.
Cluster cluster_at(const std::vector<std::string>& hosts, int rank = 0) {
  Cluster cluster;
  cluster.members.clear();
  for (const std::string& host : hosts) {
    std::optional<Endpoint> address;
    if (!host.empty()) address = Endpoint{host, 2222};
    cluster.members.push_back({"worker/" + std::to_string(cluster.members.size()), address});
  }
  cluster.rank = rank;
  return cluster;
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("workers_here: only what cannot leave the machine is loopback") {
    for (const char* host : {"localhost", "127.0.0.1", "127.3.2.1", "::1"}) {
      CAPTURE(host);
      CHECK(troupe::is_loopback_host(host));
    }
    for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "worker-0", "127.1",
                             "localhost.example", "fe80::1"}) {
      CAPTURE(host);
      CHECK_FALSE(troupe::is_loopback_host(host));
    }
  }

  TEST_CASE("cluster: workers on this machine, by the addresses") {
    CHECK(workers_here(Cluster()) == 1);
    CHECK(workers_here(cluster_at({"a", "b", "a"}, 0)) == 2);
    CHECK(workers_here(cluster_at({"a", "b", "a"}, 1)) == 1);
    // Who meets on loopback is on one machine, by whatever name.
    CHECK(workers_here(cluster_at({"127.0.0.1", "", ""}, 2)) == 3);
    CHECK(workers_here(cluster_at({"localhost", "127.0.0.1"}, 1)) == 2);
    Cluster served = cluster_at({"", "", ""});
    served.servers.push_back({"ps/0", Endpoint{"127.0.0.1", 2223}});
    CHECK(workers_here(served) == 3);
  }

  TEST_CASE("cluster: workers whose machine nobody knows are not taken for neighbours") {
    CHECK(workers_here(cluster_at({"10.0.0.1", "", "", ""}, 0)) == 1);
    CHECK(workers_here(cluster_at({"10.0.0.1", "", "", ""}, 2)) == 1);
    Cluster served = cluster_at({"", ""}, 1);
    served.servers.push_back({"ps/0", Endpoint{"10.0.0.9", 2223}});
    CHECK(workers_here(served) == 1);
  }

  TEST_CASE("cluster: what the launcher says goes before addresses") {
    Cluster cluster = cluster_at({"10.0.0.1", "", "", ""}, 2);
    cluster.on_this_machine = 2;
    CHECK(workers_here(cluster) == 2);
    cluster.members[0].address->host = "127.0.0.1";
    CHECK(workers_here(cluster) == 2);
  }
}
