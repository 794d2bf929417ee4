#include "train/callbacks/final_ops.h"

#include <stdexcept>

#include "core/error.h"
#include "tests/support/captured_log.h"
#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"

// This program does not link hooks/, so it can have a replica of its own.
class troupe::Replica {
 public:
  double weight = 0;
};

using troupe::FinalOps;
using troupe::NamedValues;
using troupe::Replica;
using troupe::testing::CapturedLog;
using troupe::testing::FakeRun;

namespace {

NamedValues weight_of(Replica& replica) { return {{"weight", replica.weight}}; }

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("final_ops: runs once, at the end, with the replica as it is then") {
    FakeRun run;
    Replica replica;
    run.set_replica(replica);
    FinalOps ops(weight_of);
    ops.begin();
    ops.ready(run);
    run.take_step(ops);
    CHECK_FALSE(ops.values());
    replica.weight = 4;
    ops.end(run);
    REQUIRE(ops.values());
    CHECK(*ops.values() == NamedValues{{"weight", 4.0}});
    ops.begin();  // a new run has no values yet
    CHECK_FALSE(ops.values());
  }

  TEST_CASE("final_ops: data that has ended is explained") {
    FakeRun run(7);
    Replica replica;
    run.set_replica(replica);
    FinalOps ops([](Replica&) -> NamedValues { throw std::out_of_range("no batch 3"); });
    CHECK_THROWS_WITH_AS(ops.end(run), doctest::Contains("read past the end of its data: no batch"),
                         troupe::DataError);
    CHECK_FALSE(ops.values());
  }

  TEST_CASE("final_ops: another failure is passed on, and the log says where it was") {
    FakeRun run(7);
    Replica replica;
    run.set_replica(replica);
    FinalOps ops([](Replica&) -> NamedValues { throw std::runtime_error("it broke"); });
    const CapturedLog log;
    CHECK_THROWS_WITH_AS(ops.end(run), "it broke", std::runtime_error);
    CHECK(log.has("the final function failed after step 7"));
  }

  TEST_CASE("final_ops: no function is refused") {
    CHECK_THROWS_AS(FinalOps(nullptr), troupe::ConfigError);
  }
}
