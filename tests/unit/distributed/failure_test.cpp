#include "troupe/core/failure.h"

#include "tests/support/test_prelude.h"
#include "troupe/distributed/membership/failure.h"

namespace {
troupe::Cluster three_workers(int rank) {
  troupe::Cluster cluster;
  cluster.members = {
      {"worker/0", std::nullopt}, {"worker/1", std::nullopt}, {"worker/2", std::nullopt}};
  cluster.rank = rank;
  return cluster;
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("failure: a lost worker is named, and reads itself that it was expelled") {
    const auto lost = troupe::peer_lost(three_workers(0), 2, "no heartbeat for 5 s");
    CHECK_THROWS_WITH_AS(troupe::raise(lost, three_workers(0), ""),
                         doctest::Contains("worker/2 is gone: no heartbeat for 5 s. Fix: "),
                         troupe::PeerLost);
    CHECK_THROWS_WITH_AS(troupe::raise(lost, three_workers(2), ""),
                         doctest::Contains("this worker (worker/2) was expelled"),
                         troupe::PeerLost);
  }

  TEST_CASE("failure: a lost link names both ends, and neither reads that it was expelled") {
    const troupe::Failure lost{troupe::FailureKind::peer_lost, 0,
                               "the link between worker/1 and worker/0 is lost: a header.", "look.",
                               troupe::kExitPeerLost};
    for (const int rank : {0, 1, 2})
      CHECK_THROWS_WITH_AS(troupe::raise(lost, three_workers(rank), ""),
                           "the link between worker/1 and worker/0 is lost: a header. Fix: look.",
                           troupe::PeerLost);
  }

  TEST_CASE("failure: each kind becomes its error, with its exit code") {
    using troupe::FailureKind;
    const auto code_of = [](FailureKind kind) {
      try {
        troupe::raise({kind, 1, "c.", "f.", 77}, three_workers(0), "where.");
      } catch (const troupe::Error& error) {
        CHECK(error.cause() == "c. where.");
        return error.exit_code();
      }
    };
    CHECK(code_of(FailureKind::peer_lost) == 138);
    CHECK(code_of(FailureKind::peer_failed) == 77);
    CHECK(code_of(FailureKind::timeout) == 138);
    CHECK(code_of(FailureKind::desync) == 1);
    CHECK(code_of(FailureKind::config) == 2);
    CHECK(code_of(FailureKind::rendezvous) == 138);
    CHECK(code_of(FailureKind::internal) == 1);
  }
}
