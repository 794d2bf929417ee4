#include "troupe/report/outbox.h"

#include <string>
#include <vector>

#include "tests/support/test_prelude.h"

namespace {

using troupe::Outbox;
using Role = troupe::Outbox::Role;
using Lines = std::vector<std::string>;

Outbox::Tell into(Lines& told, const std::string& record) {
  return [&told, record](bool again) { told.push_back(record + (again ? " again" : "")); };
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("outbox: the leader tells at once, others keep, and one that never leads forgets") {
    Lines told;
    Outbox leader(Role::leader);
    leader.add(into(told, "a"));
    CHECK(told == Lines{"a"});
    Outbox follower(Role::follower);
    follower.add(into(told, "b"));
    Outbox silent(Role::silent);
    silent.add(into(told, "c"));
    CHECK(told == Lines{"a"});
    follower.lead();
    CHECK(told == Lines{"a", "b again"});
    follower.add(into(told, "d"));  // the lost leader may have come so far
    CHECK(told == Lines{"a", "b again", "d again"});
    follower.acknowledge();
    follower.add(into(told, "e"));
    CHECK(told == Lines{"a", "b again", "d again", "e"});
  }

  TEST_CASE("outbox: what a boundary has shown to be told is kept no longer") {
    Lines told;
    Outbox follower(Role::follower);
    follower.add(into(told, "step 1"));
    follower.acknowledge();
    follower.add(into(told, "step 2"));
    follower.add(into(told, "epoch 1"));
    follower.lead();
    CHECK(told == Lines{"step 2 again", "epoch 1 again"});
  }

  TEST_CASE("outbox: a resumed run repeats what an earlier start may have told") {
    Lines told;
    Outbox leader(Role::leader);
    leader.repeat(true);
    leader.add(into(told, "epoch 1"));
    leader.repeat(false);
    leader.add(into(told, "step 2"));
    CHECK(told == Lines{"epoch 1 again", "step 2"});
  }
}
