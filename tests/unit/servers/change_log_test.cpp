#include "tests/support/test_prelude.h"
#include "troupe/strategies/parameter_server/wire/placement.h"

namespace change_log_test {

namespace {
using troupe::ChangeLog;
using Rows = std::vector<std::int64_t>;

// Shards 0 and 2 are server 1's, with 10 rows each.
troupe::ServedModel model() {
  troupe::ServedModel served;
  served.tensors = {{"a", 0, 10, 4}, {"b", 0, 10, 4}, {"c", 0, 10, 4}};
  served.shards = {{0, 1, 0, 10}, {1, 0, 0, 10}, {2, 1, 0, 10}};
  return served;
}
void touch(ChangeLog& log, int shard, const Rows& rows) {
  log.begin_update();
  log.touch_rows(shard, troupe::Span<const std::int64_t>(rows));
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("change_log: who has nothing is sent all shards of this server") {
    const ChangeLog log(model(), 1);
    const auto changes = log.since(ChangeLog::kNothing);
    REQUIRE(changes.size() == 2);
    CHECK(changes[0].shard == 0);
    CHECK(changes[0].all_rows);
    CHECK(changes[1].shard == 2);
    CHECK(log.since(log.version()).empty());
  }

  TEST_CASE("change_log: rows of several updates come once each, in order") {
    ChangeLog log(model(), 1);
    const std::int64_t start = log.version();
    touch(log, 2, {7, 3, 7});
    const std::int64_t between = log.version();
    touch(log, 2, {3, 1});
    const auto changes = log.since(start);
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].shard == 2);
    CHECK_FALSE(changes[0].all_rows);
    CHECK(changes[0].rows == Rows{1, 3, 7});
    CHECK(log.since(between)[0].rows == Rows{1, 3});
  }

  TEST_CASE("change_log: a dense update sends the whole shard, later rows only those") {
    ChangeLog log(model(), 1);
    const std::int64_t start = log.version();
    touch(log, 0, {1});
    log.begin_update();
    log.touch_all(0);
    const std::int64_t dense = log.version();
    touch(log, 0, {2});
    CHECK(log.since(start)[0].all_rows);
    CHECK(log.since(dense)[0].rows == Rows{2});
  }

  TEST_CASE("change_log: who is behind what is remembered is sent the whole shard") {
    ChangeLog log(model(), 1);
    const std::int64_t start = log.version();
    touch(log, 0, {0, 1, 2, 3});
    const std::int64_t second = log.version();
    touch(log, 0, {4, 5, 6, 7});
    CHECK_FALSE(log.since(start)[0].all_rows);
    touch(log, 0, {8, 9, 0});  // eleven rows: the first update is forgotten
    CHECK(log.since(start)[0].all_rows);
    CHECK(log.since(second)[0].rows == Rows{0, 4, 5, 6, 7, 8, 9});
  }

  TEST_CASE("change_log: an update without rows changes nothing") {
    ChangeLog log(model(), 1);
    const std::int64_t start = log.version();
    touch(log, 0, {});
    CHECK(log.since(start).empty());
  }
}

}  // namespace change_log_test
