#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/distributed/membership/credentials.h"
#include "troupe/distributed/worker_group.h"

namespace bind_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

Cluster cluster_at(const std::string& host, std::uint16_t port) {
  Cluster cluster;
  cluster.members = {{"worker/0", Endpoint{host, port}}, {"worker/1", std::nullopt}};
  return cluster;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("bind: a taken port is named, with the process that has it") {
    const LoopbackListener holder;
    const std::string where = text("127.0.0.1:", holder.port());
    const std::string owner = text("process ", ::getpid());
    const auto bind = [&] {
      WorkerGroup group(cluster_at("127.0.0.1", holder.port()), test_options());
    };
    CHECK_THROWS_WITH_AS(bind(), doctest::Contains(where.c_str()), EnvironmentError);
    CHECK_THROWS_WITH_AS(bind(), doctest::Contains(owner.c_str()), EnvironmentError);
  }

  TEST_CASE("bind: nobody takes part without a secret, not on loopback either") {
    for (const char* host : {"127.0.0.1", "192.0.2.1", "some-machine"}) {
      CAPTURE(host);
      const auto bind = [&] { WorkerGroup group(cluster_at(host, 0), {}); };
      CHECK_THROWS_WITH_AS(bind(), doctest::Contains("has no secret"), ConfigError);
      for (const char* way : {"troupe run", "--secret-file", "TROUPE_SECRET_FILE"}) {
        CHECK_THROWS_WITH_AS(bind(), doctest::Contains(way), ConfigError);
      }
    }
  }

  TEST_CASE("bind: outside loopback everything is encrypted, unless --insecure says otherwise") {
    const Cluster near = cluster_at("127.0.0.1", 1);
    const Cluster far = cluster_at("192.0.2.1", 1);
    GroupOptions options = test_options();
    CHECK_FALSE(encrypts(near, options));
    CHECK(encrypts(far, options));
    CHECK(credentials_of(far, options).encrypt);
    CHECK(credentials_of(far, options).secret == options.secret);
    options.insecure = true;
    CHECK_FALSE(encrypts(far, options));
    CHECK(credentials_of(far, options).secret == options.secret);  // the proof stays
    Cluster served = near;
    served.servers = {{"ps/0", Endpoint{"127.0.0.1", 1}}, {"ps/1", Endpoint{"host", 1}}};
    CHECK(encrypts(served, test_options()));
  }

  TEST_CASE("bind: --insecure between machines is warned of, and nowhere else") {
    for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
      for (const bool insecure : {false, true}) {
        CAPTURE(host);
        CAPTURE(insecure);
        const CapturedLog log;
        GroupOptions options = test_options();
        options.insecure = insecure;
        const WorkerGroup group(cluster_at(host, 0), options);
        CHECK(log.has("not encrypted (--insecure)") == (insecure && host[0] == '0'));
      }
    }
  }

  TEST_CASE("bind: a name that does not fit into a proof is refused") {
    Cluster cluster = cluster_at("127.0.0.1", 0);
    cluster.members[1].task = std::string(kMaxTaskBytes + 1, 'x');
    CHECK_THROWS_WITH_AS(WorkerGroup(cluster, test_options()), doctest::Contains("41 bytes"),
                         ConfigError);
  }

  TEST_CASE("bind: an address that is not this machine's is refused by name") {
    // 192.0.2.0/24 is reserved for documentation (RFC 5737)
    CHECK_THROWS_WITH_AS(WorkerGroup(cluster_at("192.0.2.1", 0), test_options()),
                         doctest::Contains("cannot listen on 192.0.2.1:0"), EnvironmentError);
  }

  TEST_CASE("bind: an inherited descriptor that does not listen is refused") {
    Cluster cluster = cluster_at("127.0.0.1", 1);
    cluster.listener = detail::InheritedSocket(0);
    CHECK_THROWS_WITH_AS(WorkerGroup(cluster, test_options()), doctest::Contains("descriptor 0"),
                         EnvironmentError);
  }

  TEST_CASE("bind: an inherited socket on all interfaces does not fit a cluster on loopback") {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::listen(fd, 1) == 0);  // binds 0.0.0.0 and a free port
    Cluster cluster = cluster_at("127.0.0.1", 1);
    cluster.listener = detail::InheritedSocket(fd);
    CHECK_THROWS_WITH_AS(WorkerGroup(cluster, test_options()), doctest::Contains("0.0.0.0"),
                         ConfigError);
  }

  TEST_CASE(
      "bind: an inherited socket belongs to the first group, and the next one binds its address") {
    LoopbackListener listener;
    const auto clusters = make_clusters(2, listener);
    for (int group_number = 0; group_number < 2; ++group_number) {
      CAPTURE(group_number);
      CHECK_NOTHROW(run_ranks(2, [&](int rank) {
        WorkerGroup group(clusters[static_cast<std::size_t>(rank)], test_options());
        group.join({});
        group.close();
      }));
    }
  }
}

}  // namespace bind_test
