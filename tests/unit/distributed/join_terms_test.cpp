#include "troupe/distributed/membership/join_terms.h"

#include "tests/support/test_prelude.h"

using troupe::first_difference;

namespace {
using Settings = std::map<std::string, std::string>;
using Lines = std::vector<std::string>;
troupe::Cluster two_workers() {
  troupe::Cluster cluster;
  cluster.members = {{"chief/0", troupe::Endpoint{"127.0.0.1", 2222}}, {"worker/0", std::nullopt}};
  return cluster;
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("join_terms: the first setting that differs, by name, with both values") {
    const Settings chief = {{"--batch-size", "64"}, {"--seed", "1"}};
    CHECK_FALSE(first_difference(chief, chief));
    const auto found = first_difference(chief, Settings{{"--batch-size", "64"}, {"--seed", "2"}});
    REQUIRE(found);
    CHECK(found->name == "--seed");
    CHECK(found->chief == "1");
    CHECK(found->worker == "2");
  }

  TEST_CASE("join_terms: a setting that only one side has is a difference") {
    const auto found = first_difference(Settings{{"--seed", "1"}}, Settings{});
    REQUIRE(found);
    CHECK(found->worker == "(absent)");
    CHECK(first_difference(Settings{}, Settings{{"--seed", "1"}})->chief == "(absent)");
  }

  TEST_CASE("join_terms: the first line that differs, a missing one included") {
    const Lines chief = {"fc1.weight float32 [10,5] true", "fc1.bias float32 [10] true"};
    CHECK_FALSE(first_difference(chief, chief));
    CHECK(first_difference(chief, Lines{chief[0]})->name == "line 2");
    CHECK(first_difference(chief, Lines{chief[0], "x"})->worker == "x");
    CHECK(first_difference(Lines{}, chief)->worker == chief[0]);
  }

  TEST_CASE("join_terms: lines survive the way to a worker") {
    for (const Lines& lines : {Lines{}, Lines{""}, Lines{"a"}, Lines{"a", "", "b"}}) {
      CHECK(troupe::split_lines(troupe::join_lines(lines)) == lines);
    }
  }

  TEST_CASE("join_terms: the fingerprint covers names, addresses and their order, not the rank") {
    const std::string base = troupe::cluster_fingerprint(two_workers());
    auto same = two_workers();
    same.rank = 1;
    same.origin = "elsewhere";
    CHECK(troupe::cluster_fingerprint(same) == base);
    auto port = two_workers();
    port.members[0].address->port = 2223;
    CHECK(troupe::cluster_fingerprint(port) != base);
    auto name = two_workers();
    name.members[1].task = "worker/1";
    CHECK(troupe::cluster_fingerprint(name) != base);
    auto more = two_workers();
    more.members.push_back({"worker/1", std::nullopt});
    CHECK(troupe::cluster_fingerprint(more) != base);
  }

  TEST_CASE("join_terms: signatures of the same text in other lines differ") {
    CHECK(troupe::signature_hash({"a", "b"}) != troupe::signature_hash({"ab"}));
  }
}
