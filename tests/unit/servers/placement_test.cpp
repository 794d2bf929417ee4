#include "troupe/strategies/parameter_server/wire/placement.h"

#include <numeric>

#include "tests/support/test_prelude.h"

namespace placement_test {

namespace {
using troupe::Shard;

// Rows of a tensor by the order of its shards.
std::vector<std::int64_t> rows_of(const std::vector<Shard>& shards, int tensor) {
  std::vector<std::int64_t> rows;
  for (const Shard& shard : shards) {
    if (shard.tensor == tensor) rows.push_back(shard.rows);
  }
  return rows;
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("placement: rows that do not divide evenly make larger parts first") {
    using Rows = std::vector<std::int64_t>;
    CHECK(troupe::split_rows(13, 5) == Rows{3, 3, 3, 2, 2});
    CHECK(troupe::split_rows(10, 5) == Rows{2, 2, 2, 2, 2});
    CHECK(troupe::split_rows(3, 5) == Rows{1, 1, 1});
    CHECK(troupe::split_rows(7, 1) == Rows{7});
    CHECK(troupe::split_rows(0, 3).empty());
  }

  TEST_CASE("placement: every row is on one server, in order") {
    const std::vector<troupe::ServedTensor> tensors = {
        {"a", 0, 13, 8}, {"b", 0, 1, 4}, {"c", 1, 100, 400}, {"d", -1, 0, 4}};
    for (const int servers : {1, 2, 3, 5, 13}) {
      const auto shards = troupe::place(tensors, servers, 16);
      for (int tensor = 0; tensor < 4; ++tensor) {
        std::int64_t next = 0;
        for (const Shard& shard : shards) {
          if (shard.tensor != tensor) continue;
          CHECK(shard.first_row == next);
          CHECK((shard.server >= 0 && shard.server < servers));
          next += shard.rows;
        }
        CHECK(next == tensors[static_cast<std::size_t>(tensor)].rows);
      }
    }
  }

  TEST_CASE("placement: no shard is smaller than the smallest, nothing small is split") {
    const auto shards = troupe::place({{"a", 0, 13, 8}}, 5, 16);
    CHECK(rows_of(shards, 0) == std::vector<std::int64_t>{3, 3, 3, 2, 2});
    CHECK(rows_of(troupe::place({{"a", 0, 13, 8}}, 5, 17), 0) ==
          std::vector<std::int64_t>{4, 3, 3, 3});
    CHECK(rows_of(troupe::place({{"a", 0, 13, 8}}, 5, 52), 0) == std::vector<std::int64_t>{13});
    CHECK(rows_of(troupe::place({{"a", 0, 3, 1000}}, 2, 1500), 0) == std::vector<std::int64_t>{3});
  }

  TEST_CASE("placement: what is not divisible is on one server, however large") {
    std::vector<troupe::ServedTensor> tensors = {{"matrix", 0, 64, 64}, {"table", 0, 64, 64}};
    tensors[0].is_divisible = false;
    const auto shards = troupe::place(tensors, 4, 8);
    CHECK(rows_of(shards, 0) == std::vector<std::int64_t>{64});
    CHECK(rows_of(shards, 1).size() == 4);
  }

  TEST_CASE("placement: bytes are spread evenly") {
    const auto shards =
        troupe::place({{"small", 0, 1, 100}, {"large", 0, 4, 250}, {"mid", 0, 1, 900}}, 3, 250);
    std::vector<std::size_t> load(3, 0);
    const std::vector<std::size_t> row_bytes = {100, 250, 900};
    for (const Shard& shard : shards) {
      load[static_cast<std::size_t>(shard.server)] +=
          static_cast<std::size_t>(shard.rows) * row_bytes[static_cast<std::size_t>(shard.tensor)];
    }
    CHECK(load == std::vector<std::size_t>{500, 1150, 350});
  }
}

}  // namespace placement_test
