#include "troupe/core/text.h"

#include <map>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"

namespace text_test {

using troupe::join;
using Parts = std::vector<std::string>;

TEST_SUITE("core") {
  TEST_CASE("text: split gives back what join was given, empty parts too") {
    CHECK(join(Parts{"", "b"}) == ", b");
    CHECK(join(Parts{}) == "");
    for (const Parts& parts : {Parts{""}, Parts{"", ""}, Parts{"", "b"}, Parts{"a", "", "c", ""}}) {
      CHECK(troupe::split(join(parts, "|"), '|') == parts);
    }
  }

  TEST_CASE("text: join makes a text of each item, and join_keys lists names") {
    CHECK(join(std::vector<int>{1, -2}, " ", [](int n) { return n < 0 ? std::string() : "+"; }) ==
          "+ ");
    CHECK(troupe::join_keys(std::map<std::string, int>{{"b", 1}, {"a", 2}}) == "a, b");
  }
}

}  // namespace text_test
