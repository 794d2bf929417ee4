#include <string>

#include "tests/support/test_prelude.h"
#include "troupe/cli/flag_lookup.h"

namespace suggestion_test {

TEST_SUITE("cli") {
  TEST_CASE("suggestion: distance counts insertions, deletions, replacements and swaps") {
    CHECK(troupe::detail::edit_distance("", "") == 0);
    CHECK(troupe::detail::edit_distance("", "abc") == 3);
    CHECK(troupe::detail::edit_distance("abc", "") == 3);
    CHECK(troupe::detail::edit_distance("epochs", "epoch") == 1);
    CHECK(troupe::detail::edit_distance("bacth", "batch") == 1);
    CHECK(troupe::detail::edit_distance("kitten", "sitting") == 3);
  }

  TEST_CASE("suggestion: the nearest name, or none where all are far") {
    CHECK(troupe::detail::nearest_name("bacth-size", {"epochs", "batch-size"}) == "batch-size");
    CHECK(troupe::detail::nearest_name("zebra", {"epochs", "batch-size"}).empty());
    CHECK(troupe::detail::nearest_name("x", {}).empty());
    CHECK(troupe::detail::nearest_name(std::string(100'000, 'e'), {"epochs"}).empty());
  }
}

}  // namespace suggestion_test
